// SPDX-License-Identifier: Apache-2.0
// GL's part of the process's shim: the calls that the preloaded stub passes on, and GL's ways to synchronise and to
// measure.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "platform/mutex.h"
#include "shim/common/api.h"
#include "shim/common/process_shim.h"
#include "shim/gl/gl_functions.h"
#include "shim/gl/hooks.h"

namespace weir::shim {

class GlShim final : public Api {
 public:
  explicit GlShim(ProcessShim& process) : process_(process) {}

  void BeforePresent(weir_gl_present& present, std::uint64_t surface, weir_gl_place place) noexcept {
    process_.BeforePresent(*this, present, surface, place.context, &place);
  }
  void AfterPresent(weir_gl_present& present) noexcept { process_.AfterPresent(*this, present); }
  /// Around a call that may end a batch, in a thread that presents nothing.
  void BeforeBatchCall(weir_gl_present& present, weir_gl_call call, weir_gl_place place) noexcept;
  void AfterBatchCall(weir_gl_present& present) noexcept { process_.AfterBatchCall(*this, present); }

  void Meet(const void* place) override;
  [[nodiscard]] std::string Renderer() const override { return renderer_; }
  [[nodiscard]] bool Software() const override { return software_; }
  std::unique_ptr<Meter> ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) override;
  std::unique_ptr<Meter> MeterOfContext() override;
  bool AwaitWork() override;
  void Synchronise(proto::FrameSync wanted, std::uint32_t surface) override;
  void Flush() override;
  [[nodiscard]] bool AwaitsBatches() const override { return true; }
  void AwaitLastBatch(const void* context, std::uint32_t loop) override;

 private:
  struct BatchFence {
    const void* context = nullptr;
    GlFunctions::GlSync fence = nullptr;  // inserted after the last batch
  };

  ProcessShim& process_;
  GlFunctions gl_;  // constant after Meet, as the next two members are
  std::string renderer_;
  bool software_ = false;
  platform::Mutex mutex_;                                      // guards the fences
  std::array<GlFunctions::GlSync, kSurfaces> frame_fences_{};  // inserted after each window's last paced frame
  std::array<BatchFence, kBatchLoops> batch_fences_{};
};

}  // namespace weir::shim
