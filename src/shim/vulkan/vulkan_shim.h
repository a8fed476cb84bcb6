// SPDX-License-Identifier: Apache-2.0
// Vulkan's part of the process's shim: the calls that the layer passes on, and Vulkan's meters. VulkanShim waits for no
// work of the program (docs/vulkan.md, law 1), so it overrides none of Api's waits.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "shim/common/api.h"
#include "shim/common/process_shim.h"
#include "shim/vulkan/hooks.h"

namespace weir::shim {

/// Charges the GPU time that the layer reports. The layer reports each moment of a device once, so the meter
/// contradicts the wall clock if the device seems to have worked for longer than the time that has passed.
class ReportedMeter final : public Meter {
 public:
  /// `reported`: the GPU time that the layer has added up and that no frame was charged yet.
  explicit ReportedMeter(std::atomic<std::int64_t>& reported) : reported_ns_(reported) {}
  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kTimerQuery; }
  [[nodiscard]] bool truthful() const override { return truthful_; }
  void BeforePresent(std::int64_t now_ns) override;
  std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t held_ns) override;

 private:
  std::atomic<std::int64_t>& reported_ns_;
  std::int64_t begun_ns_ = 0;
  std::int64_t charged_ns_ = 0;  // since begun_ns_
  bool truthful_ = true;
};

class VulkanShim final : public Api {
 public:
  explicit VulkanShim(ProcessShim& process) : process_(process) {}

  void BeforePresent(weir_shim_pass& pass, std::uint64_t window, const weir_vulkan_device& device) noexcept;
  void AfterPresent(weir_shim_pass& pass) noexcept { process_.AfterPresent(*this, pass); }
  void BeforeWork(weir_shim_pass& pass, weir_vulkan_work work, const weir_vulkan_device& device) noexcept;
  void AfterWork(weir_shim_pass& pass) noexcept { process_.AfterBatchCall(*this, pass); }
  std::uint64_t BeforeImage(std::uint64_t window, int ahead, std::uint64_t most_ns) noexcept;
  void ForgetWindow(std::uint64_t window) noexcept { process_.ForgetSurface(window); }
  /// From any thread.
  void ReportTime(std::int64_t gpu_ns) noexcept { reported_ns_.fetch_add(gpu_ns, std::memory_order_relaxed); }
  [[nodiscard]] bool WantsTimestamps() const noexcept { return wants_timestamps_.load(std::memory_order_relaxed); }

  void Meet(const void* place) override;
  [[nodiscard]] std::string Renderer() const override { return renderer_; }
  [[nodiscard]] bool Software() const override { return software_; }
  [[nodiscard]] bool MayBeInner() const override { return true; }
  std::unique_ptr<Meter> ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) override;

 private:
  ProcessShim& process_;
  std::string renderer_;
  bool software_ = false;
  bool has_timestamps_ = false;
  std::atomic<bool> wants_timestamps_{false};
  std::atomic<std::int64_t> reported_ns_{0};
};

}  // namespace weir::shim
