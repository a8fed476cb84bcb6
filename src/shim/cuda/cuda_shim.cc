// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/cuda_shim.h"

namespace weir::shim {

bool CudaShim::BeforeWork(weir_shim_pass& pass, const weir_cuda_stream& stream) noexcept {
  await_last_.store(stream.await_last, std::memory_order_relaxed);
  // The driver submits each call's work by itself. `flushes` says that the call needs no reading of the meter.
  return process_.BeforeBatchCall(*this, pass, {.kind = core::BatchBounds::Call::kLaunches, .flushes = true},
                                  stream.key, &stream);
}

void CudaShim::Meet(const void* place) { renderer_ = static_cast<const weir_cuda_stream*>(place)->renderer; }

std::unique_ptr<Meter> CudaShim::ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) {
  if (auto forced = ForcedMeter(wanted, cpus)) return forced;
  return std::make_unique<ReportedMeter>(reported_);
}

void CudaShim::AwaitLastBatch(const void* stream, std::uint32_t /*loop*/) {
  if (const auto await = await_last_.load(std::memory_order_relaxed)) await(stream, process_.Shares() ? 1 : 0);
}

}  // namespace weir::shim
