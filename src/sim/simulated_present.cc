// SPDX-License-Identifier: Apache-2.0
// A frame from the gate to the end of its present: the driver's queue, the agent's settling, vertical blanks.
#include <algorithm>
#include <utility>

#include "core/device/device_submit.h"
#include "sim/simulation.h"

namespace weir::sim {

/// Sends batches while the queue has room.
void Simulation::Send(std::uint32_t index) {
  Loop& loop = loops_[index];
  Gate& gate = GateOf(loop);
  Node& node = nodes_[gate.node];
  while (loop.to_queue > Duration{0} && loop.under_way < QueueOf(*gate.tenant)) {
    const Duration work = std::min(loop.to_queue, BatchOf(*gate.tenant));
    loop.to_queue -= work;
    ++loop.under_way;
    ++nodes_[gate.node].batches;
    if (loop.to_queue == Duration{0} && gate.tenant->frames_ahead > 0) ++loop.unshown;
    node.device.SubmitHere(
        now_,
        {.client = loop.queue, .queue = loop.queue, .tag = TagOf(index, loop.to_queue == Duration{0}), .work = work});
    PlanDevice(gate.node);
  }
  NoteWanting(index);
  NoteIdle(nodes_[gate.node]);
}

/// Sends batches, and continues towards the present when the last batch of the frame is in the queue.
void Simulation::Queue(std::uint32_t index) {
  Send(index);
  Loop& loop = loops_[index];
  if (loop.state == State::kSynchronising) return Synchronise(index);
  if (loop.to_queue > Duration{0}) return;
  if (loop.state == State::kQueueing && FinishesFirst(loop)) SetState(loop, State::kFinishing);
  if (loop.state == State::kFinishing) {
    if (loop.under_way > 0) return;
    Settle(index);
    loop.settled = true;
    loop.presented = now_;
    SetState(loop, State::kQueueing);
  }
  if (loop.state == State::kQueueing && MayPresent(loop)) Present(index);
}

/// Whether the agent waits for the frame's work before it calls a present that blocks, so that other vGPUs may have the
/// device while it blocks.
bool Simulation::FinishesFirst(const Loop& loop) {
  return !options_.tamper.present_first && loop.watch.WorthFinishing() && loop.entered && !loop.settled &&
         !GateOf(loop).tenant->compute && GateOf(loop).mode == proto::GateMode::kGated;
}

bool Simulation::MayPresent(const Loop& loop) {
  const Tenant& tenant = *GateOf(loop).tenant;
  if (tenant.finishes || tenant.compute) return loop.under_way == 0;
  return tenant.frames_ahead == 0 || std::max(loop.under_way, loop.unshown) <= tenant.frames_ahead;
}

/// The device has finished a frame. The next vertical blank shows it, or a later one if earlier frames are not shown
/// yet: each blank shows one frame.
void Simulation::ShowAtBlank(std::uint32_t index) {
  Loop& loop = loops_[index];
  const Tenant& tenant = *GateOf(loop).tenant;
  if (tenant.frames_ahead == 0) return;
  if (tenant.vsync_hz == 0) {
    --loop.unshown;
    return;
  }
  const Duration interval = FromSeconds(1 / tenant.vsync_hz);
  const auto blank_after = [&](Instant at) { return start_ + interval * ((at - start_) / interval + 1); };
  loop.shown = std::max(blank_after(now_), loop.shown + interval);
  Push(GateOf(loop).node, loop.shown, EventKind::kShown, index);
}

/// A vertical blank has shown a frame.
void Simulation::Shown(std::uint32_t index) {
  --loops_[index].unshown;
  if (loops_[index].state == State::kQueueing) Queue(index);
}

/// The device time of a frame that ends now, as the agent's meter measures it. The device may finish a frame some
/// frames later; the work that it has finished by now is counted for this frame, as with timestamps.
Duration Simulation::Metered(Loop& loop) {
  if (GateOf(loop).tenant->meter == Meter::kCall) return now_ - loop.called - loop.paced - loop.waited;
  return loop.finished - std::exchange(loop.reported, loop.finished);
}

void Simulation::Present(std::uint32_t index) {
  Loop& loop = loops_[index];
  SetState(loop, State::kPresenting);
  Push(GateOf(loop).node, now_ + loop.present, EventKind::kPresentOver, index, loop.stamp);
}

/// The loop's work is no longer in flight. Rings the doorbell if the daemon asked for that.
void Simulation::LeaveGate(Loop& loop) {
  if (!std::exchange(loop.entered, false)) return;
  const Gate& gate = GateOf(loop);
  if (gate.ring_at_end) RingNow(gate.node);
}

/// As Agent::Keep: frames whose device time is not known yet stay charged with the predicted one. Where a program draws
/// ahead, each of its frames is one batch.
Duration Simulation::Keep(Loop& loop, Duration gpu) {
  const int unknown = GateOf(loop).tenant->frames_ahead > 0 ? loop.under_way : 0;
  const int known = std::exchange(loop.unknown, unknown) + 1 - unknown;
  if (known > 0) {
    const Duration mean = gpu / known;
    loop.predicted = loop.predicted == Duration{0} ? mean : (loop.predicted * 3 + mean) / 4;
  }
  const Duration before = std::exchange(loop.kept, unknown * loop.predicted);
  return loop.kept - before;
}

/// The end of a frame for the agent: it charges the frame and records it.
void Simulation::Settle(std::uint32_t index) {
  Loop& loop = loops_[index];
  Gate& gate = GateOf(loop);
  const Duration gpu = Metered(loop);
  if (loop.state == State::kPresenting) loop.watch.Presented(gpu, now_ - loop.submitted);
  const Instant begin = std::exchange(loop.settled_at, now_);
  if (!loop.process) return;
  Charge(gate, gpu + Keep(loop, gpu) - (loop.entered ? loop.reserved : Duration{0}));
  LeaveGate(loop);
  core::FrameDone& done = gate.done.emplace_back();
  done.begin = begin;
  done.present = loop.called;
  done.end = now_;
  done.gpu = gpu;
  done.start_delay = std::clamp(loop.started - loop.begin, Duration{0}, done.present - begin);
  done.wait = loop.waited;
  done.pace = loop.paced;
  done.took = now_ - loop.submitted;
  done.present_follows = loop.state == State::kFinishing;
  if (!done.present_follows) done.predicted = loop.foretold;  // the pacer predicts the whole present
  done.loop = index;
  if (!nodes_[gate.node].housekeeping) {
    nodes_[gate.node].housekeeping = true;
    Push(gate.node, now_ + milliseconds(50), EventKind::kHousekeep, gate.node);
  }
}

void Simulation::EndFrame(std::uint32_t index) {
  Loop& loop = loops_[index];
  Gate& gate = GateOf(loop);
  loop.pacer.Presented(loop.interval, loop.submitted, now_);
  loop.pacer.Took(now_ - loop.started - loop.paced);
  if (loop.settled)
    loop.watch.PresentedFinished(now_ - loop.presented);
  else
    Settle(index);
  const bool compute = gate.tenant->compute;
  if (compute) {
    loop.task_waited += loop.waited;
    loop.task_left -= loop.cost;
    if (loop.task_left > Duration{0}) {
      loop.begin = now_;
      return Launch(index);
    }
  }
  ++gate.record.frame_count;
  if (gate.record.frames_by_s.size() <= Second()) gate.record.frames_by_s.resize(Second() + 1);
  ++gate.record.frames_by_s[Second()];
  if (options_.keep_frames)
    gate.record.frames.push_back({.end_ns = (now_ - start_).count(),
                                  .latency_ns = (now_ - (compute ? loop.task_began : loop.begin)).count(),
                                  .gpu_ns = (compute ? loop.task_cost : loop.cost).count(),
                                  .pace_ns = loop.paced.count(),
                                  .wait_ns = (compute ? loop.task_waited : loop.waited).count(),
                                  .took_ns = (now_ - loop.submitted).count(),
                                  .predicted_ns = loop.foretold.count(),
                                  .paced = loop.interval > Duration{0},
                                  .input_ns = (now_ - (compute ? loop.task_began : loop.started)).count()});
  loop.begin = now_;
  DelayStart(index);
}

}  // namespace weir::sim
