// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/kernel_cost.h"

#include <algorithm>

namespace weir::opencl {
namespace {

constexpr std::int64_t kDayNs = 86'400LL * 1'000'000'000;
constexpr std::int64_t kCostMax = 1LL << 50;

}  // namespace

std::int64_t PredictNs(const KernelCost& cost, std::uint64_t items) {
  const auto ns = static_cast<unsigned __int128>(cost.ns_per_1024_items.load(std::memory_order_relaxed)) * items / 1024;
  return ns > static_cast<unsigned __int128>(kDayNs) ? kDayNs : static_cast<std::int64_t>(ns);
}

void LearnCosts(const std::vector<std::pair<std::shared_ptr<KernelCost>, std::int64_t>>& costs,
                std::int64_t predicted_ns, std::int64_t gpu_ns) {
  constexpr std::int64_t kStepMax = 16;
  const double ratio = static_cast<double>(std::max<std::int64_t>(gpu_ns, 1)) /
                       static_cast<double>(std::max<std::int64_t>(predicted_ns, 1));
  const double step = (1 + std::clamp(ratio, 1.0 / kStepMax, static_cast<double>(kStepMax))) / 2;
  for (const auto& [cost, share] : costs) {
    const auto before = static_cast<double>(cost->ns_per_1024_items.load(std::memory_order_relaxed));
    cost->ns_per_1024_items.store(std::clamp<std::int64_t>(static_cast<std::int64_t>(before * step), 1, kCostMax),
                                  std::memory_order_relaxed);
  }
}

}  // namespace weir::opencl
