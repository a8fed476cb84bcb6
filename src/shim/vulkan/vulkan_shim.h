// SPDX-License-Identifier: Apache-2.0
// Vulkan's part of the process's shim: the calls that the layer passes on, and Vulkan's meters. VulkanShim waits for no
// work of the program (docs/vulkan.md, law 1), so it overrides none of Api's waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "shim/common/api.h"
#include "shim/common/process_shim.h"
#include "shim/common/reported_meter.h"
#include "shim/vulkan/hooks.h"

namespace weir::shim {

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
    reported_.Add(made, known, gpu_ns);
  }
  [[nodiscard]] weir_vulkan_need Need() const noexcept;
  void UseDevices(unsigned devices) noexcept { reported_.UseDevices(devices); }

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
  Reported reported_;
};

}  // namespace weir::shim
