// SPDX-License-Identifier: Apache-2.0
// Vulkan's part of the process's shim: the calls that the layer passes on, and Vulkan's meters. VulkanShim waits for no
// work of the program (docs/vulkan.md, law 1), so it overrides none of Api's waits.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "shim/common/api.h"
#include "shim/common/process_shim.h"
#include "shim/vulkan/hooks.h"

namespace weir::shim {

/// What the layer reports, from any thread.
struct Reported {
  std::atomic<std::int64_t> gpu_ns{0};           // that no frame was charged yet
  std::atomic<std::uint64_t> made{0}, known{0};  // submits with timestamps, and those whose GPU time is known
};

/// Charges the GPU time that the layer reports. The layer reports each moment of a device once, so the meter
/// contradicts the wall clock if the device seems to have worked for longer than the time that has passed.
class ReportedMeter final : public Meter {
 public:
  explicit ReportedMeter(Reported& reported) : reported_(reported) {}
  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kTimerQuery; }
  [[nodiscard]] bool truthful() const override { return truthful_; }
  void BeforePresent(std::int64_t now_ns) override;
  std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t held_ns) override;
  /// With several queues, submits end in another order than they were made in. They are counted as if in order.
  int Unknown() override;

 private:
  static constexpr std::size_t kFrames = 64;  // of more frames, the oldest count as known
  Reported& reported_;
  std::array<std::uint64_t, kFrames> made_{};  // a ring: for each frame of unknown time, the submits made until its end
  std::size_t first_ = 0, count_ = 0;
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
  void ReportTime(std::uint64_t made, std::uint64_t known, std::int64_t gpu_ns) noexcept {
    reported_.gpu_ns.fetch_add(gpu_ns, std::memory_order_relaxed);
    reported_.made.fetch_add(made, std::memory_order_relaxed);
    reported_.known.fetch_add(known, std::memory_order_relaxed);
  }
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
  Reported reported_;
};

}  // namespace weir::shim
