// SPDX-License-Identifier: Apache-2.0
// Limits the executor's host memory for clients' objects and unread replies; the quota covers only device memory. A
// driver's own needs are unknown, so each kind of object has a generous estimate. One budget covers all sessions of an
// executor, and each session has a limited part of it, so that no client can use up the whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace weir::opencl {

class HostBudget {
 public:
  static constexpr std::uint64_t kAllBytesMax = 2ULL << 30;
  static constexpr std::uint64_t kSessionBytesMax = 512ULL << 20;

  /// Without a parent: an executor's budget. With a parent: a session's, whose bytes also count towards the parent.
  explicit HostBudget(std::uint64_t bytes_max, std::shared_ptr<HostBudget> parent = nullptr)
      : bytes_max_(bytes_max), parent_(std::move(parent)) {}

  [[nodiscard]] bool Take(std::uint64_t bytes) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_max_ || used > bytes_max_ - bytes) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    if (parent_ == nullptr || parent_->Take(bytes)) return true;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  /// Whether bytes can be taken now.
  [[nodiscard]] bool Has(std::uint64_t bytes) const {
    const std::uint64_t used = used_.load(std::memory_order_relaxed);
    return bytes <= bytes_max_ && used <= bytes_max_ - bytes && (parent_ == nullptr || parent_->Has(bytes));
  }
  void Return(std::uint64_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (parent_ != nullptr) parent_->Return(bytes);
  }
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t bytes_max_;
  const std::shared_ptr<HostBudget> parent_;
  std::atomic<std::uint64_t> used_{0};
};

/// Bytes taken from a budget, returned by the destructor.
class HostCharge {
 public:
  HostCharge() = default;
  HostCharge(const HostCharge&) = delete;
  HostCharge& operator=(const HostCharge&) = delete;
  ~HostCharge() {
    if (budget_ != nullptr) budget_->Return(bytes_);
  }
  /// Takes more from the budget. False: there is no room, and nothing has changed.
  [[nodiscard]] bool Take(const std::shared_ptr<HostBudget>& budget, std::uint64_t bytes) {
    if (!budget->Take(bytes)) return false;
    budget_ = budget;
    bytes_ += bytes;
    return true;
  }

  [[nodiscard]] bool empty() const { return budget_ == nullptr; }

 private:
  std::shared_ptr<HostBudget> budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weir::opencl
