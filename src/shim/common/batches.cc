// SPDX-License-Identifier: Apache-2.0
// The batches of a thread that presents nothing. A call that ends a batch passes the gate as a present does, but keeps
// no pace. Any other call is at most metered.
#include <mutex>
#include <new>
#include <utility>

#include "platform/clock.h"
#include "platform/mutex.h"
#include "shim/common/process_shim.h"

namespace weir::shim {
namespace {

using Lock = std::lock_guard<platform::Mutex>;

/// A process that has not presented for this long counts as presenting nothing: the rate of its vGPU is then the rate
/// of its batches.
constexpr std::int64_t kStillPresentsNs = 1'000'000'000;
/// A process may submit work for this long before its first present.
constexpr std::int64_t kMayPresentNs = 100'000'000;

}  // namespace

/// State on the caller's stack between the two halves of a call.
struct ProcessShim::BatchPass {
  gate::Ticket ticket;
  const void* context;
  std::uint32_t loop;
  bool metered;  // the call ends no batch, but its meter measures it
  bool gated;
  bool flushes;
  bool is_task;
  std::int64_t begin_ns;
  std::int64_t called_ns;
  std::int64_t submit_ns;
};

/// Whether the call belongs to a frame or to another API's work and is therefore free: a game's submits belong to its
/// frames, and zink's submits to GL's calls. Submits in the first kMayPresentNs of a process that has not presented yet
/// are free as well.
bool ProcessShim::IsPartOfOther(Api& api, std::int64_t now_ns) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (gl_on_vulkan_.load(kRelaxed)) return true;
  if (now_ns - api.presented_ns_.load(kRelaxed) < kStillPresentsNs) return true;
  std::int64_t first_ns = api.first_inner_ns_.load(kRelaxed);
  if (first_ns == 0 && api.first_inner_ns_.compare_exchange_strong(first_ns, now_ns, kRelaxed)) first_ns = now_ns;
  return now_ns - first_ns < kMayPresentNs;
}

bool ProcessShim::BeforeBatchCall(Api& api, weir_shim_pass& scratch, BatchCall call, const void* context,
                                  const void* place) noexcept {
  static_assert(sizeof(BatchPass) <= sizeof(weir_shim_pass) && alignof(BatchPass) <= alignof(weir_shim_pass));
  BatchPass& pass = *new (&scratch) BatchPass{};
  if (!agent_.Wanted()) return false;
  if (call.inner && IsPartOfOther(api, platform::CoarseNowNs())) return false;
  try {
    pass.called_ns = pass.submit_ns = platform::NowNs();
    pass.context = context;
    pass.flushes = call.flushes;
    pass.is_task = call.is_task;
    {
      const Lock lock(mutex_);
      pass.loop = BatchLoopOf(context, pass.called_ns);
      BatchLoop& loop = loops_[pass.loop];
      if (!loop.bounds.Ends(InstantFromNs(pass.called_ns), call.kind)) {
        // A call that submits work closes a span of the meter here, and later work belongs to the next span. A dispatch
        // submits nothing, so it closes none.
        pass.metered = !call.flushes && api.described_ == agent_.attach_count() && api.meter_ != nullptr &&
                       !MeterOf(api, loop).cumulative();
        if (pass.metered) MeterOf(api, loop).BeforePresent(pass.called_ns);
        return false;
      }
    }
    PassGate(api, pass, place);
  } catch (...) {
    // At worst out of memory. AfterBatchCall settles the ticket, if there is one.
  }
  return pass.gated;
}

void ProcessShim::PassGate(Api& api, BatchPass& pass, const void* place) {
  pass.ticket = agent_.Arrive(pass.called_ns);
  pass.gated = pass.ticket.attachment != nullptr;
  {
    const Lock lock(mutex_);
    if (!pass.gated) return ExplainOnce();
    if (pass.ticket.waited_for_place) pass.called_ns = pass.submit_ns = platform::NowNs();
    if (api.described_ != agent_.attach_count()) PrepareMeter(api, pass.context, place);
    const std::int64_t presented_ns = presented_ns_.load(std::memory_order_relaxed);
    const bool presents = presented_ns != 0 && pass.called_ns - presented_ns < kStillPresentsNs;
    if (off_screen_ == presents) SayOffScreen(!presents);
    BatchLoop* loop = StillLoop(pass);
    if (loop == nullptr) return;
    pass.begin_ns = loop->end_ns != 0 ? std::min(loop->end_ns, pass.called_ns) : pass.called_ns;
    if (std::exchange(loop->attachment, agent_.attach_count()) != agent_.attach_count()) loop->known_ns = 0;
    Begin(MeterOf(api, *loop), pass.called_ns);
  }
  agent_.Enter(pass.ticket, pass.submit_ns);
  pass.submit_ns += pass.ticket.wait_ns;
  const Lock lock(mutex_);
  if (BatchLoop* loop = StillLoop(pass)) loop->bounds.Passed(InstantFromNs(pass.submit_ns));
}

void ProcessShim::AfterBatchCall(Api& api, weir_shim_pass& scratch) noexcept {
  const BatchPass& pass = *std::launder(reinterpret_cast<BatchPass*>(&scratch));
  if (!pass.gated && !pass.metered) return;
  std::int64_t gpu_ns = 0, end_ns = platform::NowNs();
  int unknown = gate::Frame::kNoFrame;
  bool presents = false;
  try {
    if (pass.gated) {
      if (pass.flushes) api.Flush();
      api.AwaitLastBatch(pass.context, pass.loop);
      end_ns = platform::NowNs();
    }
    const Lock lock(mutex_);
    presents = !off_screen_;
    if (BatchLoop* loop = StillLoop(pass)) {
      loop->known_ns += TakeBatchTime(api, *loop, end_ns, pass.ticket.wait_ns);
      if (!pass.gated) return;
      gpu_ns = std::exchange(loop->known_ns, 0);
      if (!api.AwaitsBatches()) unknown = MeterOf(api, *loop).Unknown();
      loop->bounds.Settled(Duration{gpu_ns + std::exchange(late_ns_, 0)});
      loop->end_ns = end_ns;
      settled_loop_ = pass.loop;
    }
  } catch (...) {
    gpu_ns = 0;
  }
  if (!pass.gated) return;
  // While the process presents, the rate of its vGPU is the rate of its frames, so its batches do not count as tasks.
  agent_.Leave(pass.ticket, {.surface = static_cast<std::uint32_t>(kSurfaces) + pass.loop,
                             .begin_ns = pass.begin_ns != 0 ? pass.begin_ns : pass.called_ns,
                             .present_ns = pass.called_ns,
                             .submit_ns = pass.submit_ns,
                             .end_ns = end_ns,
                             .gpu_ns = gpu_ns,
                             .unknown = unknown,
                             .tasks = proto::kRecordCountsTasks | (presents || !pass.is_task ? 0U : 1U)});
}

void ProcessShim::SettleBatches(Api& api) noexcept {
  if (!agent_.attached()) return;
  const std::int64_t now_ns = platform::NowNs();
  const gate::Ticket ticket = agent_.Arrive(now_ns);
  std::int64_t gpu_ns = 0;
  std::uint32_t loop = 0;
  try {
    const Lock lock(mutex_);
    loop = settled_loop_;
    // A meter that measures by itself begins and ends at passages.
    const bool reported = api.meter_ != nullptr && api.meter_->kind() == proto::MeterKind::kTimerQuery;
    if (reported && api.described_ == agent_.attach_count())
      gpu_ns = TakeGpuTime(api, api.meter_->AfterPresent(now_ns));
    late_ns_ += gpu_ns;
  } catch (...) {
    gpu_ns = 0;
  }
  if (gpu_ns == 0) return agent_.Withdraw(ticket);
  agent_.Leave(ticket, {.surface = static_cast<std::uint32_t>(kSurfaces) + loop,
                        .begin_ns = now_ns,
                        .present_ns = now_ns,
                        .submit_ns = now_ns,
                        .end_ns = now_ns,
                        .gpu_ns = gpu_ns,
                        .unknown = gate::Frame::kEndsNothing,
                        .tasks = proto::kRecordCountsTasks});
}

/// A table in which a context's entry is looked for from a place that its address says, up to the first empty one. When
/// it is full, the entry that was used least recently is replaced.
std::uint32_t ProcessShim::BatchLoopOf(const void* context, std::int64_t now_ns) {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;
  const std::size_t first = (reinterpret_cast<std::uintptr_t>(context) * kSpread >> 32) % kBatchLoops;
  std::size_t place = first;
  for (std::size_t i = 0; i < kBatchLoops; ++i) {
    const std::size_t next = (first + i) % kBatchLoops;
    if (loops_[next].context == context || loops_[next].called_ns == 0) {
      place = next;
      break;
    }
    if (loops_[next].called_ns < loops_[place].called_ns) place = next;
  }
  if (loops_[place].context != context) {
    loops_[place] = BatchLoop{};
    loops_[place].context = context;
  }
  loops_[place].called_ns = now_ns;
  return static_cast<std::uint32_t>(place);
}

/// The entry of the pass's context. Null: another context has replaced it meanwhile.
ProcessShim::BatchLoop* ProcessShim::StillLoop(const BatchPass& pass) {
  return loops_[pass.loop].context == pass.context ? &loops_[pass.loop] : nullptr;
}

/// The meter of the loop's context, if the process's meter belongs to one context. Otherwise the meter of the process.
/// Called with the lock, in the loop's context.
Meter& ProcessShim::MeterOf(Api& api, BatchLoop& loop) {
  if (loop.context == api.meter_context_ || !api.meter_->of_context()) return *api.meter_;
  if (loop.meter == nullptr) loop.meter = api.MeterOfContext();
  return loop.meter != nullptr ? *loop.meter : *api.meter_;
}

std::int64_t ProcessShim::TakeBatchTime(Api& api, BatchLoop& loop, std::int64_t now_ns, std::int64_t held_ns) {
  Meter& meter = MeterOf(api, loop);
  const std::int64_t known_ns = meter.AfterPresent(now_ns, held_ns);
  if (&meter == api.meter_.get()) return TakeGpuTime(api, known_ns);
  if (!meter.truthful()) loop.meter = MakeWallMeter();
  return known_ns;
}

}  // namespace weir::shim
