// SPDX-License-Identifier: Apache-2.0
#include "shim/common/process_shim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "platform/clock.h"
#include "platform/mutex.h"
#include "platform/thread_slice.h"

extern "C" char* program_invocation_short_name;  // NOLINT: glibc's

namespace weir::shim {
namespace {

using Lock = std::lock_guard<platform::Mutex>;

/// Time slice of a thread that sleeps to keep a pace. With the default slice, a thread woke up to 4 ms late on a CPU
/// that it shared with other programs.
constexpr Duration kPacedSlice = microseconds(100);

void WakePromptly() {
  static thread_local const bool kAsked = platform::SetThreadSlice(kPacedSlice);
  static_cast<void>(kAsked);
}

}  // namespace

/// State on the caller's stack between the two halves of a present.
struct ProcessShim::Pass {
  gate::Ticket ticket;
  std::uint32_t surface;
  bool gated;
  bool worth_finishing;   // the present waits for something else than the frame's work
  bool finished;          // the frame's work has ended and is settled; the driver's present follows
  std::int64_t begin_ns;  // of a finished frame: when its work had ended
  std::int64_t present_ns;
  std::int64_t submit_ns;
  std::int64_t sync_ns;
  std::int64_t pace_ns;
  std::int64_t predicted_ns;
  std::int64_t interval_ns;
};

ProcessShim::ProcessShim(std::string attach_path, std::string wanted_meter, proto::Api first)
    : agent_(std::move(attach_path), first, program_invocation_short_name), wanted_meter_(std::move(wanted_meter)) {}

void ProcessShim::BeforePresent(Api& api, weir_shim_pass& scratch, std::uint64_t surface, const void* context,
                                const void* place) noexcept {
  static_assert(sizeof(Pass) <= sizeof(weir_shim_pass) && alignof(Pass) <= alignof(weir_shim_pass));
  Pass& pass = *new (&scratch) Pass{};
  if (!agent_.Wanted()) return;
  if (api.MayBeInner() && gl_on_vulkan_.load(std::memory_order_relaxed)) return;
  try {
    pass.present_ns = pass.submit_ns = platform::NowNs();
    pass.ticket = agent_.Arrive(pass.present_ns);
    pass.gated = pass.ticket.attachment != nullptr;
    {
      const Lock lock(mutex_);
      if (!pass.gated) return ExplainOnce();
      if (pass.ticket.waited_for_place) pass.present_ns = pass.submit_ns = platform::NowNs();
      if (api.described_ != agent_.attach_count()) PrepareMeter(api, context, place);
      presented_ns_.store(pass.present_ns, std::memory_order_relaxed);
      api.presented_ns_.store(pass.present_ns, std::memory_order_relaxed);
      if (off_screen_) SayOffScreen(false);
      pass.surface = SurfaceIndex(surface);
      const Surface& last = surfaces_[pass.surface];
      // Windows that share an entry, or threads that share a window, may have presented while this thread waited.
      pass.begin_ns = last.end_ns != 0 ? std::min(last.end_ns, pass.present_ns) : pass.present_ns;
      pass.predicted_ns = last.pacer.PredictedPresent().count();
      pass.worth_finishing = last.watch.WorthFinishing();
      if (context != api.meter_context_ && api.meter_->of_context())
        UseWallMeter(api, "belong to one context, and the program presents in several");
      Begin(*api.meter_, pass.present_ns);
    }
    if (gate::Agent::PaceOf(pass.ticket).interval_ns > 0) KeepPace(api, pass);
    agent_.Enter(pass.ticket, pass.submit_ns);
    pass.submit_ns += pass.ticket.wait_ns;
    if (pass.worth_finishing && gate::Agent::MustWait(pass.ticket)) FinishFirst(api, pass);
  } catch (...) {
    // At worst out of memory. AfterPresent settles the ticket, if there is one.
  }
}

// Synchronising before the delay makes the present's duration predictable. Its own time is measured, not predicted
// (VGRIS, section 3.2).
void ProcessShim::KeepPace(Api& api, Pass& pass) {
  gate::Pace pace = gate::Agent::PaceOf(pass.ticket);
  WakePromptly();
  // With a late frame start, the shim waits for the frame's own work, because that is part of the frame's duration.
  const bool own_work =
      pace.start == proto::FrameStart::kLate && pace.sync == proto::FrameSync::kAuto && !api.Software();
  if (WorthSynchronising(pass) && !(own_work && api.AwaitWork())) api.Synchronise(pace.sync, pass.surface);
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

bool ProcessShim::WorthSynchronising(const Pass& pass) {
  const Lock lock(mutex_);
  return surfaces_[pass.surface].pacer.WorthSynchronising();
}
std::int64_t ProcessShim::SubmitAt(const Pass& pass) {
  const Lock lock(mutex_);
  return NsOf(surfaces_[pass.surface].pacer.SubmitAt(Duration{pass.interval_ns}));
}

// A program whose present waits for a vertical blank does not use the device while it waits. Its frame is settled when
// the frame's work has ended, so that other vGPUs may use the device meanwhile (core/schedule/present_watch.h).
void ProcessShim::FinishFirst(Api& api, Pass& pass) {
  if (!api.AwaitWork()) return;
  const std::int64_t now_ns = platform::NowNs();
  Settled settled;
  {
    const Lock lock(mutex_);
    surfaces_[pass.surface].end_ns = now_ns;
    settled.start_delay_ns = TakeStartDelay(pass);
    settled.gpu_ns = TakeGpuTime(api, api.meter_->AfterWork(now_ns, pass.pace_ns + pass.ticket.wait_ns));
    settled.unknown = api.meter_->Unknown();
  }
  pass.predicted_ns = 0;  // the pacer predicts the whole present
  pass.finished = true;
  Leave(pass, now_ns, settled);
  pass.begin_ns = now_ns;
}

/// Called with the lock.
void ProcessShim::SetMeter(Api& api, std::shared_ptr<Meter> meter) {
  api.meter_ = std::move(meter);
  api.meter_kind_.store(api.meter_->kind(), std::memory_order_relaxed);
}

/// Replaces a meter of timestamps. Called with the lock.
void ProcessShim::UseWallMeter(Api& api, const char* why) {
  const std::string renderer = api.Renderer();
  std::fprintf(stderr, "weir: GPU timestamps of '%s' %s; not used\n", renderer.c_str(), why);
  SetMeter(api, MakeWallMeter());
  agent_.Describe(api.meter_->kind(), renderer.c_str());
}

/// Returns `known_ns` and the GPU time that was not charged yet. Replaces a meter that contradicts the wall clock.
/// Called with the lock.
std::int64_t ProcessShim::TakeGpuTime(Api& api, std::int64_t known_ns) {
  if (!api.meter_->truthful()) UseWallMeter(api, "contradict the wall clock, or are missing");
  return known_ns + std::exchange(uncharged_ns_, 0);
}

void ProcessShim::AfterPresent(Api& api, weir_shim_pass& scratch) noexcept {
  const Pass& pass = *std::launder(reinterpret_cast<Pass*>(&scratch));
  if (!pass.gated) return;
  if (Settle(api, pass, platform::NowNs()) && pass.interval_ns > 0) DelayStart(pass);
}

/// Returns whether no other window has presented since this one's last present.
bool ProcessShim::Settle(Api& api, const Pass& pass, std::int64_t end_ns) noexcept {
  bool alone = false;
  Settled settled;
  try {
    const Lock lock(mutex_);
    Surface& surface = surfaces_[pass.surface];
    surface.pacer.Presented(Duration{pass.interval_ns}, InstantFromNs(pass.submit_ns), InstantFromNs(end_ns));
    const std::int64_t start_ns = surface.start_ns != 0 ? std::min(surface.start_ns, pass.present_ns) : pass.present_ns;
    surface.pacer.Took(Duration{end_ns - start_ns - pass.pace_ns});
    surface.start_ns = end_ns;
    settled.start_delay_ns = TakeStartDelay(pass);
    ++presents_;
    alone = presents_ - std::exchange(surface.presents_before, presents_) == 1;
    if (api.meter_ != nullptr) {
      settled.gpu_ns = TakeGpuTime(api, api.meter_->AfterPresent(end_ns, pass.pace_ns + pass.ticket.wait_ns));
      if (!pass.finished) settled.unknown = api.meter_->Unknown();
    }
    if (pass.finished) {
      uncharged_ns_ = settled.gpu_ns;
      surface.watch.PresentedFinished(Duration{end_ns - pass.begin_ns});
      return alone;
    }
    surface.end_ns = end_ns;
    surface.watch.Presented(Duration{settled.gpu_ns}, Duration{end_ns - pass.submit_ns});
  } catch (...) {
    settled.gpu_ns = 0;
  }
  if (!pass.finished) Leave(pass, end_ns, settled);
  return alone;
}

// With a late frame start, the program does not continue before its next frame has to begin. Its present has returned
// and is settled, so no work of the program is in flight meanwhile. A program with several windows is not delayed,
// because the thread may have to draw another window.
void ProcessShim::DelayStart(const Pass& pass) noexcept {
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

/// The delay before the program began the frame; it is reported once. Called with the lock.
std::int64_t ProcessShim::TakeStartDelay(const Pass& pass) {
  const std::int64_t delay_ns = std::exchange(surfaces_[pass.surface].start_delay_ns, 0);
  return std::min(delay_ns, pass.present_ns - pass.begin_ns);
}

void ProcessShim::Leave(const Pass& pass, std::int64_t end_ns, const Settled& settled) {
  agent_.Leave(pass.ticket, {.surface = pass.surface,
                             .begin_ns = pass.begin_ns,
                             .present_ns = pass.present_ns,
                             .submit_ns = pass.submit_ns,
                             .end_ns = end_ns,
                             .gpu_ns = settled.gpu_ns,
                             .unknown = settled.unknown,
                             .sync_ns = pass.sync_ns,
                             .pace_ns = pass.pace_ns,
                             .predicted_ns = pass.predicted_ns,
                             .interval_ns = pass.interval_ns,
                             .start_delay_ns = settled.start_delay_ns,
                             .tasks = pass.finished ? proto::kRecordPresentFollows : 0});
}

/// The frame or batch is drawn. What was drawn before the process attached is not charged. Called with the lock, in the
/// context of a meter that belongs to one.
void ProcessShim::Begin(Meter& meter, std::int64_t now_ns) {
  if (meter.attachment != agent_.attach_count()) {
    if (meter.attachment != 0) meter.AfterPresent(now_ns);
    meter.attachment = agent_.attach_count();
  }
  meter.BeforePresent(now_ns);
}

// Runs at every attach, for each API. Called with the lock.
void ProcessShim::PrepareMeter(Api& api, const void* context, const void* place) {
  if (api.meter_ == nullptr) {
    api.Meet(place);
    api.meter_context_ = context;
    std::shared_ptr<Meter> meter = api.ChooseMeter(DeviceCpus{agent_.device_cpus()}, wanted_meter_);
    // A cumulative meter counts the work of all APIs. A second one would charge the same work again.
    if (meter->cumulative()) {
      if (cpu_clocks_ == nullptr) cpu_clocks_ = meter;
      meter = cpu_clocks_;
    }
    SetMeter(api, std::move(meter));
  }
  agent_.Describe(api.meter_->kind(), api.Renderer().c_str());
  api.described_ = agent_.attach_count();  // set last: after an exception the next present tries again
}

/// Called with the lock.
void ProcessShim::SayOffScreen(bool off_screen) {
  off_screen_ = off_screen;
  agent_.ReportOffScreen(off_screen);
}

/// Does not wait for the lock: a meter calls GL with it held, and a GL that draws through Vulkan may allocate then. If
/// the lock is held, a later call says it.
void ProcessShim::SayNothingPresented() noexcept {
  if (presented_ns_.load(std::memory_order_relaxed) != 0 || !mutex_.try_lock()) return;
  const Lock lock(mutex_, std::adopt_lock);
  if (presented_ns_.load(std::memory_order_relaxed) == 0 && !off_screen_) SayOffScreen(true);
}

bool ProcessShim::ClaimMemory(std::uint64_t bytes) noexcept {
  SayNothingPresented();
  return agent_.ClaimMemory(bytes);
}

gate::MemoryUse ProcessShim::UsedMemory() noexcept {
  SayNothingPresented();
  return agent_.UsedMemory();
}

std::uint32_t ProcessShim::SurfaceIndex(std::uint64_t key) {
  std::size_t unused = kSurfaces;
  for (std::size_t i = 0; i < kSurfaces; ++i) {
    if (surfaces_[i].key == key) return static_cast<std::uint32_t>(i);
    if (surfaces_[i].key == 0 && unused == kSurfaces) unused = i;
  }
  if (unused == kSurfaces) return kSurfaces - 1;
  surfaces_[unused].key = key;
  return static_cast<std::uint32_t>(unused);
}

void ProcessShim::ForgetSurface(std::uint64_t surface) noexcept {
  const Lock lock(mutex_);
  for (Surface& one : surfaces_)
    if (one.key == surface) one = Surface{};
}

// Without this delay, a program that draws several frames ahead would wait at its presents while finished frames queue
// up, and would show each of them later.
std::int64_t ProcessShim::DelayImage(std::uint64_t surface, int ahead, std::int64_t most_ns) noexcept {
  constexpr std::int64_t kMostNs = 100'000'000;
  if (ahead <= 0 || most_ns <= 0 || !agent_.attached()) return 0;
  const std::int64_t from_ns = platform::NowNs();
  const gate::Ticket ticket = agent_.Arrive(from_ns);
  std::int64_t now_ns = from_ns;
  if (const gate::Pace pace = gate::Agent::PaceOf(ticket); pace.interval_ns > 0) {
    std::int64_t until_ns = 0;
    {
      const Lock lock(mutex_);
      const Surface& window = surfaces_[SurfaceIndex(surface)];
      until_ns = NsOf(window.pacer.SubmitAt(Duration{pace.interval_ns}));
    }
    until_ns = std::min(until_ns, from_ns + std::min({pace.interval_ns, kMostNs, most_ns}));
    bool gone = false;
    if (until_ns > from_ns) now_ns = agent_.Delay(ticket, until_ns, pace.interval_ns, gone);
  }
  agent_.Withdraw(ticket);
  return now_ns - from_ns;
}

void ProcessShim::ExplainOnce() {
  if (explained_) return;
  explained_ = true;
  const std::string why = agent_.last_error();
  if (!why.empty()) std::fprintf(stderr, "weir: %s; running unthrottled until a daemon answers\n", why.c_str());
}

}  // namespace weir::shim
