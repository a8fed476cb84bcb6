// SPDX-License-Identifier: Apache-2.0
// How much device memory a vGPU's objects may take together. Counted in bytes; the limit is given in slots of 64 MiB.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace weir::opencl {

class Quota {
 public:
  /// `limit`: bytes, asked for each time, since it may change on running programs.
  explicit Quota(std::function<std::uint64_t()> limit) : limit_(std::move(limit)) {}

  [[nodiscard]] bool Take(std::uint64_t bytes) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    const std::uint64_t limit = limit_();
    do {
      if (bytes > limit || used > limit - bytes) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Return(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t limit() const { return limit_(); }

 private:
  std::function<std::uint64_t()> limit_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace weir::opencl
