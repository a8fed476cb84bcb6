// SPDX-License-Identifier: Apache-2.0
#include "shim/gl/shim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "platform/clock.h"
#include "platform/pthread_lock.h"
#include "platform/thread_slice.h"

extern "C" char* program_invocation_short_name;  // NOLINT: glibc's

namespace weir::shim {
namespace {

using Lock = platform::PthreadLock;

/// Timer slack of a thread that sleeps to keep a pace. With the default, it woke up to 4 ms late on a CPU shared with
/// other programs.
constexpr Duration kPacedSlice = microseconds(100);

void WakePromptly() {
  static thread_local const bool kAsked = platform::SetThreadSlice(kPacedSlice);
  static_cast<void>(kAsked);
}

}  // namespace

/// State on the caller's stack between the two halves of a present.
struct GlShim::Pass {
  gate::Ticket ticket;
  std::uint32_t surface;
  bool gated;
  bool finished;          // the frame's work has ended and is settled; the driver's present follows
  std::int64_t begin_ns;  // of a finished frame: when its work had ended
  std::int64_t present_ns;
  std::int64_t submit_ns;
  std::int64_t sync_ns;
  std::int64_t pace_ns;
  std::int64_t predicted_ns;
  std::int64_t interval_ns;
};

GlShim::GlShim(std::string attach_path, std::string wanted_meter)
    : agent_(std::move(attach_path), proto::Api::kGl, program_invocation_short_name),
      wanted_meter_(std::move(wanted_meter)) {}

void GlShim::BeforePresent(weir_gl_present& present, std::uint64_t surface, weir_gl_place place) noexcept {
  static_assert(sizeof(Pass) <= sizeof(weir_gl_present) && alignof(Pass) <= alignof(weir_gl_present));
  Pass& pass = *new (&present) Pass{};
  if (!agent_.Wanted()) return;
  try {
    pass.present_ns = pass.submit_ns = platform::NowNs();
    pass.ticket = agent_.Arrive(pass.present_ns);
    pass.gated = pass.ticket.attachment != nullptr;
    {
      const Lock lock(mutex_);
      if (!pass.gated) return ExplainOnce();
      if (pass.ticket.waited_for_place) pass.present_ns = pass.submit_ns = platform::NowNs();
      if (described_ != agent_.attach_count()) PrepareMeter(place, pass.present_ns);
      presented_ns_ = pass.present_ns;
      if (off_screen_) SayOffScreen(false);
      pass.surface = SurfaceIndex(surface);
      const Surface& last = surfaces_[pass.surface];
      // Windows that share an entry, or threads that share a window, may have presented while this thread waited.
      pass.begin_ns = last.end_ns != 0 ? std::min(last.end_ns, pass.present_ns) : pass.present_ns;
      pass.predicted_ns = last.pacer.PredictedPresent().count();
      meter_->BeforePresent(pass.present_ns);
    }
    if (gate::Agent::PaceOf(pass.ticket).interval_ns > 0) KeepPace(pass);
    agent_.Enter(pass.ticket, pass.submit_ns);
    pass.submit_ns += pass.ticket.wait_ns;
    if (gate::Agent::MustWait(pass.ticket)) FinishFirst(pass);
  } catch (...) {
    // At worst out of memory. AfterPresent settles the ticket, if there is one.
  }
}

// Synchronising before the delay makes the present's duration predictable. Its own time is measured, not predicted
// (VGRIS, section 3.2).
void GlShim::KeepPace(Pass& pass) {
  gate::Pace pace = gate::Agent::PaceOf(pass.ticket);
  WakePromptly();
  // With a late frame start the frame's own work is waited for, since it belongs to what a frame takes.
  const bool own_work = pace.start == proto::FrameStart::kLate && pace.sync == proto::FrameSync::kAuto && !software_;
  if (WorthSynchronising(pass) && !(own_work && WaitForWork())) Synchronise(pace.sync, pass.surface);
  std::int64_t now_ns = platform::NowNs();
  pass.sync_ns = now_ns - pass.present_ns;
  for (bool gone = false; !gone; pace = gate::Agent::PaceOf(pass.ticket)) {
    pass.interval_ns = pace.interval_ns;
    if (pace.interval_ns == 0) break;
    const std::int64_t submit_ns = SubmitAt(pass);
    if (submit_ns <= now_ns) break;
    now_ns = agent_.Delay(pass.ticket, submit_ns, pace.interval_ns, gone);
    if (now_ns < submit_ns) continue;
    const Lock lock(mutex_);
    surfaces_[pass.surface].pacer.Slept(InstantFromNs(submit_ns), InstantFromNs(now_ns));
    break;
  }
  pass.pace_ns = now_ns - pass.present_ns - pass.sync_ns;
  pass.submit_ns = now_ns;
}

bool GlShim::WorthSynchronising(const Pass& pass) {
  const Lock lock(mutex_);
  return surfaces_[pass.surface].pacer.WorthSynchronising();
}
std::int64_t GlShim::SubmitAt(const Pass& pass) {
  const Lock lock(mutex_);
  return NsOf(surfaces_[pass.surface].pacer.SubmitAt(Duration{pass.interval_ns}));
}

// Called without the lock, because it may take long. Functions that the context lacks are not called, so that no error
// is left in it.
void GlShim::Synchronise(proto::FrameSync wanted, std::uint32_t surface) {
  using proto::FrameSync;
  if (wanted == FrameSync::kAuto) wanted = software_ ? FrameSync::kFinish : FrameSync::kFence;
  if (wanted == FrameSync::kFence && !gl_.HasFences()) wanted = FrameSync::kFlush;
  if (wanted == FrameSync::kFinish && gl_.finish != nullptr) return gl_.finish();
  if (wanted == FrameSync::kFlush && gl_.flush != nullptr) return gl_.flush();
  if (wanted != FrameSync::kFence) return;
  GlFunctions::GlSync fence = gl_.InsertFence();
  if (gl_.flush != nullptr) gl_.flush();
  {
    const Lock lock(mutex_);
    std::swap(fence, surfaces_[surface].fence);
  }
  static_cast<void>(gl_.AwaitFence(fence));
}

// A program whose present waits for a vertical blank does not use the device while it waits. Its frame is settled when
// the work has ended, so that others may have the device meanwhile (core/schedule/present_watch.h).
void GlShim::FinishFirst(Pass& pass) {
  {
    const Lock lock(mutex_);
    if (!surfaces_[pass.surface].watch.WorthFinishing()) return;
  }
  if (!WaitForWork()) return;
  const std::int64_t now_ns = platform::NowNs();
  std::int64_t gpu_ns = 0, start_delay_ns = 0;
  {
    const Lock lock(mutex_);
    surfaces_[pass.surface].end_ns = now_ns;
    start_delay_ns = TakeStartDelay(pass);
    gpu_ns = TakeGpuTime(meter_->AfterWork(now_ns, pass.pace_ns + pass.ticket.wait_ns));
  }
  pass.predicted_ns = 0;  // the pacer predicts the whole present
  pass.finished = true;
  Leave(pass, now_ns, gpu_ns, start_delay_ns);
  pass.begin_ns = now_ns;
}

/// False: the work has not ended within the bound of a fence, or the context has no fences.
bool GlShim::WaitForWork() { return gl_.HasFences() && gl_.AwaitFence(gl_.InsertFence()); }

/// Called with the lock. Replaces a meter that contradicts the wall clock.
std::int64_t GlShim::TakeGpuTime(std::int64_t known_ns) {
  if (!meter_->truthful()) {
    std::fprintf(stderr, "weir: GPU timestamps of '%s' contradict the wall clock, or are missing; not used\n",
                 renderer_.c_str());
    meter_ = MakeWallMeter();
    agent_.Describe(meter_->kind(), renderer_.c_str());
  }
  return known_ns + std::exchange(uncharged_ns_, 0);
}

void GlShim::AfterPresent(weir_gl_present& present) noexcept {
  const Pass& pass = *std::launder(reinterpret_cast<Pass*>(&present));
  if (!pass.gated) return;
  if (Settle(pass, platform::NowNs()) && pass.interval_ns > 0) DelayStart(pass);
}

/// Returns whether no other window has presented since this one's last present.
bool GlShim::Settle(const Pass& pass, std::int64_t end_ns) noexcept {
  bool alone = false;
  std::int64_t gpu_ns = 0, start_delay_ns = 0;
  try {
    const Lock lock(mutex_);
    Surface& surface = surfaces_[pass.surface];
    surface.pacer.Presented(Duration{pass.interval_ns}, InstantFromNs(pass.submit_ns), InstantFromNs(end_ns));
    const std::int64_t start_ns = surface.start_ns != 0 ? std::min(surface.start_ns, pass.present_ns) : pass.present_ns;
    surface.pacer.Took(Duration{end_ns - start_ns - pass.pace_ns});
    surface.start_ns = end_ns;
    start_delay_ns = TakeStartDelay(pass);
    ++presents_;
    alone = presents_ - std::exchange(surface.presents_before, presents_) == 1;
    if (meter_ != nullptr) gpu_ns = TakeGpuTime(meter_->AfterPresent(end_ns, pass.pace_ns + pass.ticket.wait_ns));
    if (pass.finished) {
      uncharged_ns_ = gpu_ns;
      surface.watch.PresentedFinished(Duration{end_ns - pass.begin_ns});
      return alone;
    }
    surface.end_ns = end_ns;
    surface.watch.Presented(Duration{gpu_ns}, Duration{end_ns - pass.submit_ns});
  } catch (...) {
    gpu_ns = 0;
  }
  if (!pass.finished) Leave(pass, end_ns, gpu_ns, start_delay_ns);
  return alone;
}

// With a late frame start the program does not continue before its next frame has to begin. Its present has returned
// and is settled, so that nothing of it is in flight meanwhile. A program with several windows is not delayed: the
// thread may have to draw another one.
void GlShim::DelayStart(const Pass& pass) noexcept {
  const gate::Ticket ticket = agent_.Arrive(platform::NowNs());
  const gate::Pace pace = gate::Agent::PaceOf(ticket);
  std::int64_t start_ns = 0;
  if (pace.interval_ns > 0 && pace.start == proto::FrameStart::kLate) {
    const Lock lock(mutex_);
    start_ns = NsOf(surfaces_[pass.surface].pacer.StartAt(Duration{pace.interval_ns}));
  }
  const std::int64_t from_ns = platform::NowNs();
  if (start_ns > from_ns) {
    bool gone = false;
    const std::int64_t now_ns = agent_.Delay(ticket, start_ns, pace.interval_ns, gone);
    const Lock lock(mutex_);
    Surface& surface = surfaces_[pass.surface];
    if (now_ns >= start_ns) surface.pacer.StartDelayed(InstantFromNs(start_ns), InstantFromNs(now_ns));
    surface.start_ns = now_ns;
    surface.start_delay_ns = now_ns - from_ns;
  }
  agent_.Withdraw(ticket);
}

/// Called with the lock. The delay before the program began the frame, which is told once.
std::int64_t GlShim::TakeStartDelay(const Pass& pass) {
  const std::int64_t delay_ns = std::exchange(surfaces_[pass.surface].start_delay_ns, 0);
  return std::min(delay_ns, pass.present_ns - pass.begin_ns);
}

void GlShim::Leave(const Pass& pass, std::int64_t end_ns, std::int64_t gpu_ns, std::int64_t start_delay_ns) {
  agent_.Leave(pass.ticket, {.surface = pass.surface,
                             .begin_ns = pass.begin_ns,
                             .present_ns = pass.present_ns,
                             .submit_ns = pass.submit_ns,
                             .end_ns = end_ns,
                             .gpu_ns = gpu_ns,
                             .sync_ns = pass.sync_ns,
                             .pace_ns = pass.pace_ns,
                             .predicted_ns = pass.predicted_ns,
                             .interval_ns = pass.interval_ns,
                             .start_delay_ns = start_delay_ns,
                             .tasks = pass.finished ? proto::kRecordPresentFollows : 0});
}

// Runs at every attach. Rendering before it is not charged.
void GlShim::PrepareMeter(weir_gl_place place, std::int64_t now_ns) {
  if (meter_ == nullptr) {
    gl_ = LookUpGl(place.get_proc);
    meter_context_ = place.context;
    renderer_ = gl_.Renderer();
    software_ = IsSoftwareRenderer(renderer_);
    meter_ = ChooseMeter(gl_, DeviceCpus{agent_.device_cpus()}, wanted_meter_);
  } else if (meter_->kind() != proto::MeterKind::kTimerQuery || place.context == meter_context_) {
    meter_->AfterPresent(now_ns);
  }
  agent_.Describe(meter_->kind(), renderer_.c_str());
  described_ = agent_.attach_count();  // set last: after an exception the next present tries again
}

/// Called with the lock.
void GlShim::SayOffScreen(bool off_screen) {
  off_screen_ = off_screen;
  agent_.ReportOffScreen(off_screen);
}

std::uint32_t GlShim::SurfaceIndex(std::uint64_t key) {
  for (std::size_t i = 0; i < kSurfaces; ++i) {
    if (surfaces_[i].key == key) return static_cast<std::uint32_t>(i);
    if (surfaces_[i].key != 0) continue;
    surfaces_[i].key = key;
    return static_cast<std::uint32_t>(i);
  }
  return kSurfaces - 1;
}

void GlShim::ExplainOnce() {
  if (explained_) return;
  explained_ = true;
  const std::string why = agent_.last_error();
  if (!why.empty()) std::fprintf(stderr, "weir: %s; running unthrottled until a daemon answers\n", why.c_str());
}

}  // namespace weir::shim
