// SPDX-License-Identifier: Apache-2.0
#include "modules/launch_loads.h"

#include <algorithm>
#include <cmath>

namespace weir::modules {

using core::LoadKind;

void LaunchLoads::Add(const Launch& launch) {
  ++launches_;
  on_device_ += launch.on_device;
  const double seconds = SecondsOf(launch.on_device), items = static_cast<double>(launch.group_items);
  const double local_kib = static_cast<double>(launch.local_bytes) / 1024;
  // The scarcest resource limits how many groups are resident. One group always runs, however large it is.
  double resident = std::min(static_cast<double>(launch.groups), Has(LoadKind::kBlocks));
  if (items > 0) resident = std::min(resident, std::max(1.0, std::floor(Has(LoadKind::kThreads) / items)));
  if (local_kib > 0) resident = std::min(resident, std::max(1.0, std::floor(Has(LoadKind::kLocal) / local_kib)));
  const auto add = [&](LoadKind kind, double amount) {
    sums_[static_cast<std::size_t>(kind)] += std::min(amount, Has(kind)) * seconds;
  };
  add(LoadKind::kBlocks, resident);
  add(LoadKind::kThreads, resident * items);
  add(LoadKind::kLocal, resident * local_kib);
  sums_[static_cast<std::size_t>(LoadKind::kTraffic)] += static_cast<double>(launch.argument_bytes) * 1e-6;
}

MeasuredLoads LaunchLoads::Over(Duration run) const {
  MeasuredLoads measured{.launches = launches_, .device_ns = static_cast<std::uint64_t>(on_device_.count())};
  const double run_s = SecondsOf(run);
  if (run_s <= 0) return measured;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    // Launches of concurrent queues are summed, so the sum is clamped to the device's capacity. Memory traffic is only
    // an estimate; a declared capacity does not bound it.
    const double most = static_cast<LoadKind>(i) == LoadKind::kTraffic ? static_cast<double>(core::kLoadMax)
                                                                       : static_cast<double>(capacity_[i]);
    const double mean = std::min(sums_[i] / run_s, most);
    measured.loads[i] = mean > 0 ? std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(mean))) : 0;
  }
  return measured;
}

}  // namespace weir::modules
