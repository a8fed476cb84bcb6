// SPDX-License-Identifier: Apache-2.0
// The batches of a thread that presents nothing. A call that ends a batch passes the gate as a present does, but has
// no pace to keep; a call that ends none is at most metered.
#include <new>
#include <utility>

#include "platform/clock.h"
#include "platform/pthread_lock.h"
#include "shim/gl/shim.h"

namespace weir::shim {
namespace {

using Lock = platform::PthreadLock;

/// A process that has not presented for this long presents nothing, and the rate of its vGPU is that of its batches.
constexpr std::int64_t kStillPresentsNs = 1'000'000'000;

}  // namespace

/// State on the caller's stack between the two halves of a call.
struct GlShim::BatchPass {
  gate::Ticket ticket;
  const void* context;
  std::uint32_t loop;
  bool metered;  // it ends no batch, and its meter was told
  bool gated;
  bool flushes;  // the driver's function does not, so the shim does
  std::int64_t begin_ns;
  std::int64_t called_ns;
  std::int64_t submit_ns;
};

void GlShim::BeforeBatchCall(weir_gl_present& present, weir_gl_call call, weir_gl_place place) noexcept {
  static_assert(sizeof(BatchPass) <= sizeof(weir_gl_present) && alignof(BatchPass) <= alignof(weir_gl_present));
  BatchPass& pass = *new (&present) BatchPass{};
  if (!agent_.Wanted()) return;
  try {
    pass.called_ns = pass.submit_ns = platform::NowNs();
    pass.context = place.context;
    pass.flushes = call != WEIR_GL_ENDS;
    {
      const Lock lock(mutex_);
      pass.loop = BatchLoopOf(place.context, pass.called_ns);
      BatchLoop& loop = loops_[pass.loop];
      const auto kind =
          call == WEIR_GL_DISPATCH ? core::BatchBounds::Call::kDispatches : core::BatchBounds::Call::kEndsWork;
      if (!loop.bounds.Ends(InstantFromNs(pass.called_ns), kind)) {
        // Its work goes to the device now, and the next span begins with what follows. A dispatch submits nothing.
        pass.metered = call == WEIR_GL_ENDS && described_ == agent_.attach_count() && meter_ != nullptr &&
                       !MeterOf(loop)->cumulative();
        if (pass.metered) MeterOf(loop)->BeforePresent(pass.called_ns);
        return;
      }
    }
    PassGate(pass, place);
  } catch (...) {
    // At worst out of memory. AfterBatchCall settles the ticket, if there is one.
  }
}

void GlShim::PassGate(BatchPass& pass, weir_gl_place place) {
  pass.ticket = agent_.Arrive(pass.called_ns);
  pass.gated = pass.ticket.attachment != nullptr;
  {
    const Lock lock(mutex_);
    if (!pass.gated) return ExplainOnce();
    if (pass.ticket.waited_for_place) pass.called_ns = pass.submit_ns = platform::NowNs();
    if (described_ != agent_.attach_count()) PrepareMeter(place, pass.called_ns);
    const bool presents = presented_ns_ != 0 && pass.called_ns - presented_ns_ < kStillPresentsNs;
    if (off_screen_ == presents) SayOffScreen(!presents);
    BatchLoop* loop = StillLoop(pass);
    if (loop == nullptr) return;
    pass.begin_ns = loop->end_ns != 0 ? std::min(loop->end_ns, pass.called_ns) : pass.called_ns;
    MeterOf(*loop)->BeforePresent(pass.called_ns);
  }
  agent_.Enter(pass.ticket, pass.submit_ns);
  pass.submit_ns += pass.ticket.wait_ns;
  const Lock lock(mutex_);
  if (BatchLoop* loop = StillLoop(pass)) loop->bounds.Passed(InstantFromNs(pass.submit_ns));
}

void GlShim::AfterBatchCall(weir_gl_present& present) noexcept {
  const BatchPass& pass = *std::launder(reinterpret_cast<BatchPass*>(&present));
  if (!pass.gated && !pass.metered) return;
  std::int64_t gpu_ns = 0, end_ns = platform::NowNs();
  bool presents = false;
  try {
    if (pass.gated) {
      if (pass.flushes && gl_.flush != nullptr) gl_.flush();
      AwaitLastBatch(pass);
      end_ns = platform::NowNs();
    }
    const Lock lock(mutex_);
    presents = !off_screen_;
    if (BatchLoop* loop = StillLoop(pass)) {
      loop->known_ns += TakeBatchTime(*loop, end_ns, pass.ticket.wait_ns);
      if (!pass.gated) return;
      gpu_ns = std::exchange(loop->known_ns, 0);
      loop->bounds.Settled(Duration{gpu_ns});
      loop->end_ns = end_ns;
    }
  } catch (...) {
    gpu_ns = 0;
  }
  if (!pass.gated) return;
  // While the process presents, the rate of its vGPU is that of its frames, so its batches are no tasks of their own.
  agent_.Leave(pass.ticket, {.surface = static_cast<std::uint32_t>(kSurfaces) + pass.loop,
                             .begin_ns = pass.begin_ns != 0 ? pass.begin_ns : pass.called_ns,
                             .present_ns = pass.called_ns,
                             .submit_ns = pass.submit_ns,
                             .end_ns = end_ns,
                             .gpu_ns = gpu_ns,
                             .tasks = proto::kRecordCountsTasks | (presents ? 0U : 1U)});
}

/// Waits until the device has done the batch before this one, so that at most two are under way; a driver's present
/// does the same for frames. Called without the lock.
void GlShim::AwaitLastBatch(const BatchPass& pass) {
  if (!gl_.HasFences()) {
    if (gl_.finish != nullptr) gl_.finish();
    return;
  }
  GlFunctions::GlSync fence = gl_.InsertFence();
  {
    const Lock lock(mutex_);
    BatchLoop* loop = StillLoop(pass);
    if (loop != nullptr) std::swap(fence, loop->fence);
  }
  static_cast<void>(gl_.AwaitFence(fence));
}

std::uint32_t GlShim::BatchLoopOf(const void* context, std::int64_t now_ns) {
  std::size_t place = 0;
  for (std::size_t i = 0; i < kBatchLoops; ++i) {
    if (loops_[i].context == context) {
      place = i;
      break;
    }
    if (loops_[i].called_ns < loops_[place].called_ns) place = i;
  }
  if (loops_[place].context != context) {
    loops_[place] = BatchLoop{};
    loops_[place].context = context;
  }
  loops_[place].called_ns = now_ns;
  return static_cast<std::uint32_t>(place);
}

/// Null: another context has taken its place meanwhile.
GlShim::BatchLoop* GlShim::StillLoop(const BatchPass& pass) {
  return loops_[pass.loop].context == pass.context ? &loops_[pass.loop] : nullptr;
}

/// Timestamps belong to a context. All other meters are the process's. Called with the lock, in the loop's context.
std::unique_ptr<Meter>& GlShim::MeterOf(BatchLoop& loop) {
  if (meter_->kind() != proto::MeterKind::kTimerQuery || loop.context == meter_context_) return meter_;
  if (loop.meter == nullptr) loop.meter = MakeTimerMeter(gl_);
  return loop.meter != nullptr ? loop.meter : meter_;
}

std::int64_t GlShim::TakeBatchTime(BatchLoop& loop, std::int64_t now_ns, std::int64_t held_ns) {
  std::unique_ptr<Meter>& meter = MeterOf(loop);
  const std::int64_t known_ns = meter->AfterPresent(now_ns, held_ns);
  if (meter == meter_) return TakeGpuTime(known_ns);
  if (!meter->truthful()) meter = MakeWallMeter();
  return known_ns;
}

}  // namespace weir::shim
