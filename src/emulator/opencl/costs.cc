// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/costs.h"

#include <algorithm>
#include <cmath>

#include "core/device/device_model.h"

namespace weir::emulator::cl {

KernelWork WorkOf(const std::vector<KernelCost>& kernels, double factor, std::string_view name, std::uint64_t items) {
  const auto found = std::ranges::find_if(kernels, [&](const KernelCost& one) { return Matches(one.name, name); });
  if (found == kernels.end()) return {.work = {.cost = Work::Cost::kMeasured, .factor = factor}};
  KernelWork out{.work = {.factor = factor, .units = found->units}, .computed = found->computed};
  if (!found->fixed) {
    out.work.cost = Work::Cost::kMeasured;
    return out;
  }
  out.work.cost = Work::Cost::kKnown;
  const double ns = static_cast<double>(found->fixed->count()) + found->per_item_ns * static_cast<double>(items);
  constexpr auto kMost = static_cast<double>(core::DeviceModel::kWorkMax.count());
  out.work.time = Duration{std::llround(std::min(ns, kMost))};
  return out;
}

}  // namespace weir::emulator::cl
