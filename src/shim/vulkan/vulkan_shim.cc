// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/vulkan_shim.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::shim {

void VulkanShim::BeforePresent(weir_shim_pass& pass, std::uint64_t window, const weir_vulkan_device& device) noexcept {
  process_.BeforePresent(*this, pass, window, device.key, &device);
}

void VulkanShim::BeforeWork(weir_shim_pass& pass, weir_vulkan_work work, const weir_vulkan_device& device) noexcept {
  process_.BeforeBatchCall(*this, pass, {.is_task = work == WEIR_VULKAN_SUBMITS, .inner = true}, device.key, &device);
}

std::uint64_t VulkanShim::BeforeImage(std::uint64_t window, int ahead, std::uint64_t most_ns) noexcept {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t waited_ns =
      process_.DelayImage(window, ahead, static_cast<std::int64_t>(std::min(most_ns, kMost)));
  return static_cast<std::uint64_t>(std::max<std::int64_t>(waited_ns, 0));
}

weir_vulkan_need VulkanShim::Need() const noexcept {
  switch (meter_kind()) {
    case proto::MeterKind::kTimerQuery: return WEIR_VULKAN_NEEDS_TIME;
    case proto::MeterKind::kWallClock:
    case proto::MeterKind::kPresentCpuTime: return WEIR_VULKAN_NEEDS_WAITS;
    default: return WEIR_VULKAN_NEEDS_NOTHING;
  }
}

void VulkanShim::Meet(const void* place) {
  const auto& device = *static_cast<const weir_vulkan_device*>(place);
  renderer_ = device.renderer;
  software_ = device.is_cpu != 0;
  has_timestamps_ = device.has_timestamps != 0;
}

std::unique_ptr<Meter> VulkanShim::ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) {
  const bool timestamps = wanted == NameOf(proto::MeterKind::kTimerQuery) || !software_;
  if (auto forced = ForcedMeter(wanted, cpus)) return forced;
  if (has_timestamps_ && timestamps) return std::make_unique<ReportedMeter>(reported_);
  if (auto workers = SoonWorkerMeter(cpus, software_); workers != nullptr && software_) return workers;
  if (software_) return MakePresentCpuMeter(cpus);
  return MakeWallMeter();
}

}  // namespace weir::shim
