// SPDX-License-Identifier: Apache-2.0
// What kernels cost, learned from batches.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::opencl {

/// GPU time of a kernel for one work-item. For any thread.
///
/// Time and work-items are summed over the last few batches and divided: of two batches that are on the device together
/// the one that ends first is told the time of both and the other nothing, and their sum is right where each is wrong.
/// The first batch is forgotten with the second, for drivers compile when they launch.
class KernelCost {
 public:
  /// GPU time that `items` work-items are foreseen to take; a day at most. While nothing is known a nanosecond each.
  [[nodiscard]] std::int64_t PredictNs(std::uint64_t items) const;
  /// How many work-items are foreseen to take `gpu_ns`; one at least.
  [[nodiscard]] std::uint64_t ItemsIn(std::int64_t gpu_ns) const;
  /// Whether predictions are worth something.
  [[nodiscard]] bool known() const;
  void Learn(double gpu_ns, double items);

 private:
  [[nodiscard]] double NsPerItem() const;

  mutable std::mutex mutex_;
  int lessons_ = 0;
  double gpu_ns_ = 0, items_ = 0;
};

/// What one kernel is in a batch.
struct CostPart {
  std::shared_ptr<KernelCost> cost;
  std::uint64_t items = 0;
  std::int64_t predicted_ns = 0;
};

/// A batch took `gpu_ns` where `predicted_ns` were foreseen for all of it: each kernel in it learns its part.
void LearnCosts(const std::vector<CostPart>& parts, std::int64_t predicted_ns, std::int64_t gpu_ns);

}  // namespace weir::opencl
