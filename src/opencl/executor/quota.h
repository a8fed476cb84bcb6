// SPDX-License-Identifier: Apache-2.0
// The memory that a vGPU's objects may take, together and each. In bytes, unlike the daemon's orders, which count slots
// of 64 MiB.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace weir::opencl {

class Quota {
 public:
  struct Limits {
    std::uint64_t all = 0;   // bytes of all objects
    std::uint64_t each = 0;  // of one object: a larger one could never be on the device
  };
  /// `limits` is called each time, because limits may change while programs run.
  explicit Quota(std::function<Limits()> limits) : limits_(std::move(limits)) {}

  [[nodiscard]] bool Take(std::uint64_t bytes) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    const Limits limits = limits_();
    if (bytes > std::min(limits.each, limits.all)) return Refused();
    do {
      if (used > limits.all - bytes) return Refused();
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Return(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] Limits limits() const { return limits_(); }
  /// Counts an allocation, or a command of which not all objects find room on the device. Returns false.
  bool Refused() {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  [[nodiscard]] std::uint32_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  std::function<Limits()> limits_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint32_t> refused_{0};
};

}  // namespace weir::opencl
