// SPDX-License-Identifier: Apache-2.0
#include "shim/gl/gl_shim.h"

#include <mutex>
#include <utility>

#include "platform/mutex.h"
#include "shim/gl/gl_meters.h"

namespace weir::shim {

void GlShim::BeforeBatchCall(weir_gl_present& present, weir_gl_call call, weir_gl_place place) noexcept {
  using Kind = core::BatchBounds::Call;
  process_.BeforeBatchCall(
      *this, present,
      {.kind = call == WEIR_GL_DISPATCH ? Kind::kDispatches : Kind::kEndsWork, .flushes = call != WEIR_GL_ENDS},
      place.context, &place);
}

void GlShim::Meet(const void* place) {
  gl_ = LookUpGl(static_cast<const weir_gl_place*>(place)->get_proc);
  renderer_ = gl_.Renderer();
  software_ = IsSoftwareRenderer(renderer_);
  if (renderer_.starts_with("zink")) process_.GlIsOnVulkan();
}

std::unique_ptr<Meter> GlShim::ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) {
  return shim::ChooseMeter(gl_, cpus, wanted);
}

std::unique_ptr<Meter> GlShim::MeterOfContext() { return MakeTimerMeter(gl_); }

/// False: the work has not ended within the bound of a fence, or the context has no fences.
bool GlShim::AwaitWork() { return gl_.HasFences() && gl_.AwaitFence(gl_.InsertFence()); }

// Functions that the context lacks are not called, so that no error is left in it.
void GlShim::Synchronise(proto::FrameSync wanted, std::uint32_t surface) {
  using proto::FrameSync;
  if (wanted == FrameSync::kAuto) wanted = software_ ? FrameSync::kFinish : FrameSync::kFence;
  if (wanted == FrameSync::kFence && !gl_.HasFences()) wanted = FrameSync::kFlush;
  if (wanted == FrameSync::kFinish && gl_.finish != nullptr) return gl_.finish();
  if (wanted == FrameSync::kFlush) return Flush();
  if (wanted != FrameSync::kFence) return;
  GlFunctions::GlSync fence = gl_.InsertFence();
  Flush();
  {
    const std::lock_guard lock(mutex_);
    std::swap(fence, frame_fences_[surface]);
  }
  static_cast<void>(gl_.AwaitFence(fence));
}

void GlShim::Flush() {
  if (gl_.flush != nullptr) gl_.flush();
}

/// Keeps at most two batches of a context in flight, as a driver's present does for frames.
void GlShim::AwaitLastBatch(const void* context, std::uint32_t loop) {
  if (!gl_.HasFences()) {
    if (gl_.finish != nullptr) gl_.finish();
    return;
  }
  GlFunctions::GlSync fence = gl_.InsertFence();
  {
    const std::lock_guard lock(mutex_);
    BatchFence& last = batch_fences_[loop];
    if (last.context != context) last = {context, nullptr};
    std::swap(fence, last.fence);
  }
  static_cast<void>(gl_.AwaitFence(fence));
}

}  // namespace weir::shim
