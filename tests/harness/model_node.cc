// SPDX-License-Identifier: Apache-2.0
// What a modelled node does in each step. Optimised, because tests play minutes of it; they themselves are not.
#include "tests/harness/model_node.h"

#include <algorithm>

namespace weir::testing {

void ModelNode::RunFor(Duration span) {
  for (const Instant end = now_ + span; now_ < end; now_ += kStep) {
    for (Process& p : processes_) Advance(p);
    RunDevice();
    if (spans_ && now_ >= next_reading_) ReadAccount();
    if (now_ >= look_again_) Look();
  }
}

void ModelNode::Advance(Process& p) {
  if (p.phase == Phase::kThink && now_ >= p.think_until) {
    p.phase = Phase::kWait;
    p.asked = now_;
  }
  if (p.phase == Phase::kPace && now_ >= p.submit) EndFrame(p);
  if (p.phase != Phase::kWait) return;
  Gate& gate = gates_[p.vgpu];
  const bool pass = gate.mode == proto::GateMode::kOpen || (gate.mode == proto::GateMode::kGated && gate.allowance > 0);
  if (!pass) {
    if (asleep_) look_again_ = now_;  // rings the doorbell
    return;
  }
  p.cost = FromSeconds(SecondsOf(p.loop.gpu) * (1 + p.loop.jitter * (2 * prng_.Uniform() - 1)));
  if (p.predicted == Duration{0}) p.predicted = p.loop.gpu;
  p.left_ns = static_cast<double>(p.cost.count());
  p.reserved = std::min(p.predicted, kReservedMax);
  gate.allowance -= p.reserved.count();
  p.phase = Phase::kGpu;
  p.passed = p.charged_at = p.polled_at = now_;
  if (asleep_) look_again_ = now_;
}

void ModelNode::RunDevice() {
  double running = 0;
  for (const Process& p : processes_) running += p.phase == Phase::kGpu ? 1 : 0;
  for (Process& p : processes_) {
    if (p.phase != Phase::kGpu) continue;
    const double slice = std::min(p.left_ns, static_cast<double>(kStep.count()) / running);
    p.left_ns -= slice;
    gates_[p.vgpu].used += Duration{static_cast<std::int64_t>(slice)};
    p.used_ns += slice;
    if (p.left_ns > 0) {
      Poll(p);
      continue;
    }
    if (spans_) p.cost = now_ + kStep - p.passed;
    gates_[p.vgpu].allowance -= (p.cost - p.reserved).count();
    p.predicted = (p.predicted * 3 + p.cost) / 4;
    const Duration interval = gates_[p.vgpu].frame_interval;
    p.submit = interval > Duration{0} ? p.pacer.SubmitAt(interval) : now_;
    if (p.submit > now_)
      p.phase = Phase::kPace;
    else
      EndFrame(p);
  }
}

void ModelNode::Poll(Process& p) {
  if (now_ - p.polled_at < kPoll) return;
  p.polled_at = now_;
  const Duration used = spans_ ? now_ - p.passed : p.cost - Duration{static_cast<std::int64_t>(p.left_ns)};
  if (used <= p.reserved) return;
  gates_[p.vgpu].allowance -= (used - p.reserved).count();
  p.reserved = used;
  p.charged_at = now_;
}

void ModelNode::EndFrame(Process& p) {
  p.phase = Phase::kThink;
  p.think_until = now_ + p.loop.think;
  p.pacer.Presented(gates_[p.vgpu].frame_interval, now_, now_);
  const core::FrameDone frame{
      .begin = p.begin, .present = p.asked, .end = now_, .gpu = p.cost, .wait = p.passed - p.asked, .loop = p.id.value};
  p.begin = now_;
  Must(engine_.Step(now_, engine::FramesDone{p.vgpu, {&frame, 1}, 0, 0}, scratch_));
}

void ModelNode::ReadAccount() {
  next_reading_ = now_ + kReading;
  Look();
  std::vector<core::UseCounter> counters;
  for (const Process& p : processes_)
    counters.push_back(
        {.vgpu = p.vgpu, .process = p.id, .key = p.id.value, .total = Duration{static_cast<std::int64_t>(p.used_ns)}});
  Must(engine_.Step(now_, engine::SeeDeviceUse{"", {.busy = {}, .counters = counters}}, actions_));
  Carry();
}

void ModelNode::Look() {
  ++looks_;
  samples_.clear();
  for (auto& [id, gate] : gates_) {
    engine::GateSample sample{.vgpu = id, .allowance_ns = gate.allowance};
    for (const Process& p : processes_) {
      if (p.vgpu != id) continue;
      sample.waiting += p.phase == Phase::kWait ? 1 : 0;
      sample.in_flight += p.phase == Phase::kGpu ? 1 : 0;
      if (p.phase == Phase::kGpu) sample.reserved_ns += p.reserved.count();
    }
    samples_.push_back(sample);
  }
  Must(engine_.Step(now_, engine::GatesSampled{samples_}, actions_));
  Carry();
}

void ModelNode::Carry() {
  for (const engine::Decision& decision : actions_.decisions) notes_.push_back({now_, engine::NoteOf(decision)});
  leave_.insert(leave_.end(), actions_.leave.begin(), actions_.leave.end());
  for (const engine::Publish& publish : actions_.publish) {
    gates_[publish.vgpu].mode = publish.mode;
    gates_[publish.vgpu].frame_interval = publish.frame_interval;
  }
  for (const engine::AllowanceGrant& grant : actions_.grant) {
    std::int64_t& allowance = gates_[grant.vgpu].allowance;  // wraps around, like the gate's atomic
    allowance =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(allowance) + static_cast<std::uint64_t>(grant.delta_ns));
  }
  look_again_ = actions_.look_again;
  asleep_ = actions_.asleep;
}

}  // namespace weir::testing
