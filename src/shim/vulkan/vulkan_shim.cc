// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/vulkan_shim.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::shim {

void ReportedMeter::BeforePresent(std::int64_t now_ns) {
  if (begun_ns_ == 0) begun_ns_ = now_ns;
}

std::int64_t ReportedMeter::AfterPresent(std::int64_t now_ns, std::int64_t /*held_ns*/) {
  constexpr std::int64_t kSlackNs = 100'000'000;  // for work that was submitted before the meter was made
  const std::int64_t known_ns = reported_.gpu_ns.exchange(0, std::memory_order_relaxed);
  if (begun_ns_ == 0) begun_ns_ = now_ns;
  charged_ns_ += known_ns;
  if (known_ns < 0 || charged_ns_ > (now_ns - begun_ns_) / 10 * 11 + kSlackNs) truthful_ = false;
  return truthful_ ? known_ns : 0;
}

int ReportedMeter::Unknown() {
  const std::uint64_t known = reported_.known.load(std::memory_order_relaxed);
  if (count_ == kFrames) {
    first_ = (first_ + 1) % kFrames;
    --count_;
  }
  made_[(first_ + count_) % kFrames] = reported_.made.load(std::memory_order_relaxed);
  ++count_;
  while (count_ > 0 && made_[first_] <= known) {
    first_ = (first_ + 1) % kFrames;
    --count_;
  }
  return static_cast<int>(count_);
}

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

void VulkanShim::Meet(const void* place) {
  const auto& device = *static_cast<const weir_vulkan_device*>(place);
  renderer_ = device.renderer;
  software_ = device.is_cpu != 0;
  has_timestamps_ = device.has_timestamps != 0;
}

std::unique_ptr<Meter> VulkanShim::ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) {
  const bool timestamps = wanted == NameOf(proto::MeterKind::kTimerQuery) || !software_;
  if (auto forced = ForcedMeter(wanted, cpus)) return forced;
  if (has_timestamps_ && timestamps) {
    wants_timestamps_.store(true, std::memory_order_relaxed);
    return std::make_unique<ReportedMeter>(reported_);
  }
  if (auto workers = SoonWorkerMeter(cpus, software_); workers != nullptr && software_) return workers;
  if (software_) return MakePresentCpuMeter(cpus);
  return MakeWallMeter();
}

}  // namespace weir::shim
