// SPDX-License-Identifier: Apache-2.0
// CUDA's part of the process's shim: the calls that Weir's libcuda.so.1 passes on, and CUDA's meter. CUDA presents
// nothing, so each call that puts work on the device may end a batch.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "shim/common/api.h"
#include "shim/common/process_shim.h"
#include "shim/common/reported_meter.h"
#include "shim/cuda/hooks.h"

namespace weir::shim {

class CudaShim final : public Api {
 public:
  explicit CudaShim(ProcessShim& process) : process_(process) {}
  /// Returns whether the call has passed the gate.
  bool BeforeWork(weir_shim_pass& pass, const weir_cuda_stream& stream) noexcept;
  void AfterWork(weir_shim_pass& pass) noexcept { process_.AfterBatchCall(*this, pass); }
  void ReportTime(unsigned made, unsigned known, std::int64_t gpu_ns) noexcept { reported_.Add(made, known, gpu_ns); }
  [[nodiscard]] bool Charges() noexcept { return process_.attached(); }
  void Settle() noexcept { process_.SettleBatches(*this); }
  void UseDevices(unsigned devices) noexcept { reported_.UseDevices(devices); }

 private:
  void Meet(const void* place) override;
  [[nodiscard]] std::string Renderer() const override { return renderer_; }
  [[nodiscard]] bool Software() const override { return false; }
  std::unique_ptr<Meter> ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) override;
  [[nodiscard]] bool AwaitsBatches() const override { return true; }
  void AwaitLastBatch(const void* stream, std::uint32_t loop) override;

  ProcessShim& process_;
  std::string renderer_;
  std::atomic<void (*)(const void*, int)> await_last_{nullptr};
  Reported reported_;
};

}  // namespace weir::shim
