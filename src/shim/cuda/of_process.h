// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <atomic>

namespace weir::shim::cuda {

/// An object that the process has one of. Never destroyed, because threads of the program may call the driver while the
/// program exits. A child of a fork begins with a new one: the driver knows nothing there, and the state of locks is
/// unknown.
template <typename Type>
class OfProcess {
 public:
  static Type& Get() {
    static const bool kForgotten =
        ::pthread_atfork(nullptr, nullptr, [] { instance.store(nullptr, std::memory_order_relaxed); }) == 0;
    static_cast<void>(kForgotten);
    Type* present = instance.load(std::memory_order_acquire);
    if (present != nullptr) return *present;
    auto* made = new Type;
    if (instance.compare_exchange_strong(present, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *present;
  }

 private:
  static inline std::atomic<Type*> instance{nullptr};
};

}  // namespace weir::shim::cuda
