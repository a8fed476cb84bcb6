// SPDX-License-Identifier: Apache-2.0
// A mutex for code that runs in a tenant's process. It is used instead of std::mutex for two reasons: the child of a
// fork must be able to renew it in any state, because the thread that held it does not exist there; and a thread that
// finds it free takes and releases it without a function call. std::lock_guard locks it.
//
//          lock                    lock by another thread, which sleeps
//   kFree ──────▶ kHeld ─────────────────────────────────────────────▶ kAwaited
//     ▲  unlock     │                                                     │
//     └─────────────┴──────────────── unlock, which wakes one thread ─────┘
//
// A thread that was woken takes the mutex as kAwaited, because it does not know whether others still sleep.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::platform {

class Mutex {
 public:
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      AwaitAndTake();
  }
  bool try_lock() noexcept {
    std::uint32_t free = kFree;
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (word_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      WakeOne();
  }
  /// For the child of a fork, while it has one thread: the mutex is free again.
  void Renew() noexcept { word_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kAwaited = 2;

  void AwaitAndTake() noexcept;
  void WakeOne() noexcept;

  std::atomic<std::uint32_t> word_{kFree};
};

}  // namespace weir::platform
