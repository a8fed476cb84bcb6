// SPDX-License-Identifier: Apache-2.0
// The cost of kernels, learned from batches.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::opencl {

/// GPU time of a kernel for one work-item. Thread-safe.
///
/// Times and work-items are summed over the last few batches and then divided. Of two batches that run together, the
/// one that ends first is charged the time of both and the other nothing: each is wrong, but their sum is right. The
/// first batch is forgotten with the second, because drivers compile at the first launch.
class KernelCost {
 public:
  /// The predicted GPU time of `items` work-items, at most a day. Until a cost is known, one nanosecond each.
  [[nodiscard]] std::int64_t PredictNs(std::uint64_t items) const;
  /// The number of work-items predicted to take `gpu_ns`, at least one.
  [[nodiscard]] std::uint64_t ItemsIn(std::int64_t gpu_ns) const;
  /// Whether predictions are reliable.
  [[nodiscard]] bool known() const;
  void Learn(double gpu_ns, double items);

 private:
  [[nodiscard]] double NsPerItem() const;

  mutable std::mutex mutex_;
  int lessons_ = 0;
  double gpu_ns_ = 0, items_ = 0;
};

/// The share of one kernel in a batch.
struct CostPart {
  std::shared_ptr<KernelCost> cost;
  std::uint64_t items = 0;
  std::int64_t predicted_ns = 0;
};

/// A batch was predicted to take `predicted_ns` and took `gpu_ns`: each kernel learns its share of the time.
void LearnCosts(const std::vector<CostPart>& parts, std::int64_t predicted_ns, std::int64_t gpu_ns);

}  // namespace weir::opencl
