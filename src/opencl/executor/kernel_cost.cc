// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/kernel_cost.h"

#include <algorithm>

namespace weir::opencl {
namespace {

constexpr double kDayNs = 86'400e9;

/// The decay of the sums with each batch: they span about eight batches.
constexpr double kDecay = 7.0 / 8;

/// A batch that takes this many times its prediction is considered different work, for example with other arguments,
/// and replaces what was known. The factor exceeds two, because two batches may be charged as one.
constexpr double kSurprise = 4;

}  // namespace

double KernelCost::NsPerItem() const { return items_ > 0 ? std::max(gpu_ns_ / items_, 1e-3) : 1.0; }

std::int64_t KernelCost::PredictNs(std::uint64_t items) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(std::min(NsPerItem() * static_cast<double>(items), kDayNs));
}

std::uint64_t KernelCost::ItemsIn(std::int64_t gpu_ns) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint64_t>(std::max(static_cast<double>(gpu_ns) / NsPerItem(), 1.0));
}

bool KernelCost::known() const {
  const std::lock_guard lock(mutex_);
  return lessons_ >= 2;
}

void KernelCost::Learn(double gpu_ns, double items) {
  if (items <= 0) return;
  const std::lock_guard lock(mutex_);
  const bool anew = lessons_ < 2 || gpu_ns > kSurprise * NsPerItem() * items;
  const double kept = anew ? 0 : kDecay;
  gpu_ns_ = kept * gpu_ns_ + gpu_ns;
  items_ = kept * items_ + items;
  if (lessons_ < 2) ++lessons_;
}

void LearnCosts(const std::vector<CostPart>& parts, std::int64_t predicted_ns, std::int64_t gpu_ns) {
  for (const CostPart& part : parts) {
    const double share =
        predicted_ns > 0 ? static_cast<double>(part.predicted_ns) / static_cast<double>(predicted_ns) : 0;
    part.cost->Learn(share * static_cast<double>(gpu_ns), static_cast<double>(part.items));
  }
}

}  // namespace weir::opencl
