// SPDX-License-Identifier: Apache-2.0
// The nodes of a run: devices, polls, faults, and the checks that are made during a run.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "sim/checkers.h"
#include "sim/compared/compared_policies.h"
#include "sim/simulation.h"

namespace weir::sim {
namespace {

engine::SetPolicy PolicyEvent(const std::string& policy, const core::PolicyParams& params) {
  return {.device = "", .policy = policy, .params = params, .entry = FindCompared(policy)};
}

}  // namespace

void Simulation::StartNode(std::uint32_t index) {
  Node& node = nodes_[index];
  node.engine = std::make_unique<engine::NodeEngine>(
      std::vector<engine::DeviceSpec>{{.name = scenario_.devices[index].name, .kind = "gpu", .cpus = {}}},
      options_.tamper.policy);
  node.up = true;
  Step(index, PolicyEvent(node.policy, node.params));
  if (node.oversell != core::OversellMode::kOff) SellBy(index, node.oversell, node.oversell_params);
  if (Elastic())
    Step(index,
         engine::SetMemory{"", scenario_.devices[index].memory, run_.memory_params, scenario_.devices[index].cpus});
  for (const std::uint32_t gate : node.gates) {
    gates_[gate].allowance_ns = 0;
    gates_[gate].mode = proto::GateMode::kOpen;
    gates_[gate].interval = Duration{0};
    gates_[gate].ring_at_end = false;
    gates_[gate].resting = false;
    gates_[gate].record.worked_since_ns = gates_[gate].record.booked_ns = 0;
    if (!gates_[gate].sold) continue;
    const bool restored = now_ > start_;
    Step(index, engine::CreateVgpu{gates_[gate].tenant->name, "", gates_[gate].settings, gates_[gate].id,
                                   gates_[gate].sale, restored});
    NoteTerms(gates_[gate]);
  }
  // Executors attach again at once, and keep what they have on the device.
  for (std::uint32_t loop = 0; Elastic() && loop < loops_.size(); ++loop)
    if (loops_[loop].state != State::kAbsent && !loops_[loop].process && GateOf(loops_[loop]).node == index)
      Attach(loop);
}

void Simulation::PlayDevice(std::uint32_t index) {
  Node& node = nodes_[index];
  completed_.clear();
  node.device.Advance(now_, completed_);
  PlanDevice(index);
  for (const core::DeviceCompletion& each : completed_) BatchDone(each);
}

void Simulation::MoveDeviceEvent(std::uint32_t index) {
  Node& node = nodes_[index];
  node.device_event = node.device.NextEvent();
  if (node.device_event == core::DeviceModel::kNoEvent) return node.heap.ClearApart();
  node.heap.SetApart(node.device_event, EventKind::kDevice, index);
  next_ns_[index] = std::min(next_ns_[index], NsOf(node.device_event));
}

void Simulation::BatchDone(const core::DeviceCompletion& done) {
  const std::uint32_t index = LoopOf(done.command);
  const Duration work = done.command.work;
  Loop& loop = loops_[index];
  TenantRecord& record = GateOf(loop).record;
  record.gpu_ns += work.count();
  if (record.gpu_ns_by_s.size() <= Second()) record.gpu_ns_by_s.resize(Second() + 1);
  record.gpu_ns_by_s[Second()] += work.count();
  if (loop.process) {
    record.worked_ns += work.count();
    record.worked_since_ns += work.count();
  }
  --loop.under_way;
  --NodeOf(loop).batches;
  NoteWanting(index);
  NoteIdle(NodeOf(loop));
  if (LastOfFrame(done.command)) ShowAtBlank(index);
  if (loop.state == State::kAbsent) return;
  loop.finished += GateOf(loop).tenant->meter == Meter::kSpan ? done.ended - done.began : work;
  if (LastOfFrame(done.command) && loop.pins > 0) Unpin(loop, 1);
  if (loop.state == State::kQueueing || loop.state == State::kFinishing || loop.state == State::kSynchronising)
    Queue(index);
}

// -- The daemon ------------------------------------------------------------------------------------------------------

void Simulation::LookAt(std::uint32_t index, Instant when) {
  Node& node = nodes_[index];
  node.look_at = when == core::kNever ? when : std::max({when, node.looked + core::kLookSpacing, now_});
  ++node.look_stamp;
  if (when != core::kNever) Push(index, node.look_at, EventKind::kLook, index, node.look_stamp);
}

void Simulation::RingBell(std::uint32_t index) {
  if (nodes_[index].up && nodes_[index].asleep && nodes_[index].look_at > now_) LookAt(index, now_);
}

/// A doorbell that is answered also by a daemon that has a later poll planned.
void Simulation::RingNow(std::uint32_t index) {
  nodes_[index].rung = true;
  if (nodes_[index].up && nodes_[index].look_at > now_) LookAt(index, now_);
}

/// The reservations of the gate's frames in flight.
Duration Simulation::ReservedOf(const Gate& gate) const {
  Duration reserved{};
  for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) {
    const Loop& loop = loops_[gate.first_loop + i];
    if (loop.entered) reserved += loop.reserved;
    reserved += loop.kept;
  }
  return reserved;
}

void Simulation::Sample(std::uint32_t index) {
  Node& node = nodes_[index];
  samples_.clear();
  memory_samples_.clear();
  bool any_leaves = false;
  for (const std::uint32_t g : node.sampled) {
    Gate& gate = gates_[g];
    std::uint32_t attached = 0, waiting = 0, in_flight = 0;
    for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) {
      const Loop& loop = loops_[gate.first_loop + i];
      if (!loop.process) continue;
      ++attached;
      waiting += loop.state == State::kWaiting ? 1 : 0;
      in_flight += loop.entered ? 1 : 0;
    }
    if (attached == 0 || gate.resting) {
      gate.to_sample = false;
      any_leaves = true;
    }
    if (attached == 0) continue;
    engine::GateSample& sample = samples_.emplace_back();
    sample.vgpu = gate.id;
    sample.allowance_ns = gate.allowance_ns;
    sample.waiting = waiting;
    sample.in_flight = in_flight;
    sample.reserved_ns = ReservedOf(gate).count();
    if (Elastic()) SampleMemory(gate, attached);
  }
  if (any_leaves) std::erase_if(node.sampled, [this](std::uint32_t g) { return !gates_[g].to_sample; });
}

/// Makes the next poll sample the gate. A gate that rests is sampled only once for each call.
void Simulation::SampleNext(std::uint32_t gate) {
  if (std::exchange(gates_[gate].to_sample, true)) return;
  std::vector<std::uint32_t>& sampled = nodes_[gates_[gate].node].sampled;
  sampled.insert(std::ranges::lower_bound(sampled, gate), gate);
}

void Simulation::Look(std::uint32_t index) {
  Node& node = nodes_[index];
  if (!node.up) return;
  ++looks_;
  node.looked = now_;
  node.rung = false;
  Sample(index);
  WEIR_CHECK(node.engine->Step(now_, engine::GatesSampled{samples_, memory_samples_}, node.actions).has_value());
  Carry(index);
  node.asleep = node.actions.asleep;
  LookAt(index, node.rung ? now_ : node.actions.look_again);
}

void Simulation::Housekeep(std::uint32_t index) {
  Node& node = nodes_[index];
  node.housekeeping = false;
  engine::Actions none;
  if (node.up && node.look_at == core::kNever) Look(index);
  for (const std::uint32_t g : node.gates) {
    Gate& gate = gates_[g];
    if (gate.done.empty()) continue;
    if (node.up) {
      if (scenario_.devices[index].account > Duration{0}) {
        const double scale = node.engine->ReportScale(gate.id);
        for (core::FrameDone& done : gate.done)
          done.gpu = Duration{static_cast<std::int64_t>(static_cast<double>(done.gpu.count()) * scale)};
      }
      WEIR_CHECK(node.engine->Step(now_, engine::FramesDone{gate.id, gate.done, 0, 0}, none).has_value());
    }
    gate.done.clear();
  }
}

/// Gives the engine what weir-gpu-account reports to the daemon: the device's true use by each program.
void Simulation::ReadAccount(std::uint32_t index) {
  Node& node = nodes_[index];
  Push(index, now_ + scenario_.devices[index].account, EventKind::kAccount, index);
  if (!node.up) return;
  std::vector<core::UseCounter> counters;
  for (std::uint32_t g : node.gates)
    for (std::uint32_t i = 0; i < LoopsOf(gates_[g]); ++i) {
      const Loop& loop = loops_[gates_[g].first_loop + i];
      if (!loop.process) continue;
      counters.push_back({.vgpu = gates_[g].id,
                          .process = loop.process,
                          .key = loop.queue,
                          .total = node.device.BusyOf(loop.queue, core::EngineKind::kCompute, now_)});
    }
  Step(index, engine::SeeDeviceUse{scenario_.devices[index].name,
                                   {.busy = node.device.Busy(core::EngineKind::kCompute, now_), .counters = counters}});
}

void Simulation::Step(std::uint32_t index, const engine::Event& event) {
  Node& node = nodes_[index];
  const Status status = node.engine->Step(now_, event, node.actions);
  if (!status) {
    violations_.push_back(
        fmt::format("{:.3f} s: the engine refused: {}", SecondsOf(now_ - start_), status.error().message));
    return;
  }
  Carry(index);
  if (node.look_at > now_) LookAt(index, now_);
}

void Simulation::Carry(std::uint32_t index) {
  Node& node = nodes_[index];
  if (options_.tamper.actions) options_.tamper.actions(now_, node.actions);
  const auto mix = [&node](std::uint64_t value) { Mix(node.digest, value); };
  mix(static_cast<std::uint64_t>(NsOf(now_)));
  // Waking may lead to another step, so the gates to wake are collected first. The vector's memory is reused.
  std::vector<std::uint32_t> woken = std::move(woken_);
  woken.clear();
  const auto gate_of = [&](VgpuId id) { return static_cast<std::uint32_t>(id.value - 1); };
  for (const engine::Publish& publish : node.actions.publish) {
    Gate& gate = gates_[gate_of(publish.vgpu)];
    gate.mode = publish.mode;
    gate.interval = publish.frame_interval;
    gate.sync = publish.sync;
    gate.start = publish.start;
    // An order stays in force while the daemon is dead.
    if (Elastic()) {
      TakeOrder(gate_of(publish.vgpu), publish.memory);
    } else {
      node.memory.Limit(gate.memory, publish.memory.limit);
      NoteMemory(gate);
    }
    woken.push_back(gate_of(publish.vgpu));
    mix(publish.vgpu.value * 64 + static_cast<std::uint64_t>(publish.sync) * 8 +
        static_cast<std::uint64_t>(publish.mode));
    mix(static_cast<std::uint64_t>(publish.frame_interval.count()));
    if (publish.start != proto::FrameStart::kEarly) mix(static_cast<std::uint64_t>(publish.start));
    mix(publish.memory.limit);
    if (Elastic()) mix(publish.memory.here);
    mix(std::bit_cast<std::uint64_t>(publish.cap.Fraction()));
  }
  for (const engine::Tell& tell : node.actions.tell) {
    mix(tell.vgpu.value * 64 + static_cast<std::uint64_t>(tell.command));
    mix(tell.argument);
  }
  for (const engine::AllowanceGrant& grant : node.actions.grant) {
    std::int64_t& allowance = gates_[gate_of(grant.vgpu)].allowance_ns;  // wraps, as the gate's atomic does
    allowance =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(allowance) + static_cast<std::uint64_t>(grant.delta_ns));
    if (grant.wake) woken.push_back(gate_of(grant.vgpu));
    mix(grant.vgpu.value * 2 + (grant.wake ? 1 : 0));
    mix(static_cast<std::uint64_t>(grant.delta_ns));
  }
  for (const engine::RingAtEnd& ring : node.actions.ring_at_end) {
    gates_[gate_of(ring.vgpu)].ring_at_end = ring.wanted;
    mix(ring.vgpu.value * 2 + (ring.wanted ? 1 : 0));
  }
  for (const engine::Rest& rest : node.actions.rest) {
    gates_[gate_of(rest.vgpu)].resting = rest.resting;
    if (!rest.resting) SampleNext(gate_of(rest.vgpu));
  }
  actions_ += node.actions.publish.size() + node.actions.grant.size() + node.actions.tell.size();
  for (const std::uint32_t gate : woken) {
    if (Elastic()) AdvanceMemory(gate);
    WakeGate(gate);
  }
  woken_ = std::move(woken);
}

/// As with a futex: all loops that wait check the gate again, the longest waiting first, until the allowance is spent.
/// Delayed loops follow a changed interval at once.
void Simulation::WakeGate(std::uint32_t index) {
  Gate& gate = gates_[index];
  for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) {
    const std::uint32_t l = gate.first_loop + i;
    Loop& loop = loops_[l];
    const bool delayed = loop.state == State::kPaced || loop.state == State::kDelayed;
    if (!delayed || gate.interval == loop.interval) continue;
    ++loop.stamp;
    if (loop.state == State::kDelayed) {
      BeginFrame(l);
      continue;
    }
    loop.resumed = now_;
    KeepPace(l);
  }
  for (;;) {
    std::uint32_t first = gate.first_loop + LoopsOf(gate);
    for (std::uint32_t l = gate.first_loop; l < gate.first_loop + LoopsOf(gate); ++l) {
      const Loop& loop = loops_[l];
      const bool pass = !loop.process || gate.mode == proto::GateMode::kOpen ||
                        (gate.mode == proto::GateMode::kGated && gate.allowance_ns > 0);
      if (loop.state != State::kWaiting || !pass) continue;
      if (first == gate.first_loop + LoopsOf(gate) || loop.resumed < loops_[first].resumed) first = l;
    }
    if (first == gate.first_loop + LoopsOf(gate)) return;
    Loop& loop = loops_[first];
    loop.entered = loop.process.value != 0;
    if (loop.entered) Charge(gate, loop.reserved);
    PassGate(first);
  }
}

void Simulation::Attach(std::uint32_t index) {
  Loop& loop = loops_[index];
  loop.process = ProcessId{NodeOf(loop).next_process++};
  loop.reported = loop.finished;  // work that was done while it was not attached is charged to no vGPU
  loop.kept = Duration{0};
  loop.unknown = 0;
  SampleNext(loop.gate);
  Step(GateOf(loop).node, engine::ProcessAttached{GateOf(loop).id, loop.process, !GateOf(loop).tenant->compute});
}

// -- Changes and faults ----------------------------------------------------------------------------------------------

void Simulation::Apply(const ScenarioChange& change) {
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (change.oversell) SellBy(n, *change.oversell, change.oversell_params);
    if (!change.of_policy()) continue;
    nodes_[n].policy = change.policy;
    nodes_[n].params = change.params;
    if (nodes_[n].up) Step(n, PolicyEvent(change.policy, change.params));
  }
  for (Gate& gate : gates_) {
    if (gate.tenant->name == change.tenant) SetTenant(gate, change.settings);
  }
}

/// Whether another fault of the same kind, at the same place, is not mended yet.
bool Simulation::StillBroken(const Fault& like) const {
  for (std::uint32_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (broken_[i] && fault.kind == like.kind && fault.device == like.device && fault.tenant == like.tenant)
      return true;
  }
  return false;
}

double Simulation::StealOf(std::uint32_t node) const {
  double steal = scenario_.devices[node].cpu_steal;
  for (std::uint32_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (broken_[i] && fault.kind == FaultKind::kCpuSteal && fault.device == node)
      steal = std::max(steal, std::clamp(fault.amount, 0.0, 0.95));
  }
  return steal;
}

void Simulation::Break(std::uint32_t index) {
  const Fault& fault = scenario_.faults[index];
  broken_[index] = true;
  Node& node = nodes_[fault.device];
  switch (fault.kind) {
    case FaultKind::kDaemonCrash:
      // Agents notice it and fail open: no program waits or is delayed until the daemon is back.
      node.up = false;
      node.engine.reset();
      LookAt(fault.device, core::kNever);
      for (const std::uint32_t g : node.gates) {
        for (std::uint32_t i = 0; i < LoopsOf(gates_[g]); ++i) {
          Loop& loop = loops_[gates_[g].first_loop + i];
          if (loop.entered) gates_[g].record.charged_ns -= loop.reserved.count();
          loop.process = {};
          loop.entered = false;
        }
        gates_[g].interval = Duration{0};
        gates_[g].mode = proto::GateMode::kOpen;
        WakeGate(g);
      }
      return;
    case FaultKind::kProcessKill:
      for (Gate& gate : gates_) {
        if (gate.tenant->name != fault.tenant) continue;
        gate.killed = true;
        StopLoop(gate.first_loop);
      }
      return;
    case FaultKind::kDeviceStall:
      node.device.Stall(now_, start_ + fault.until);
      PlanDevice(fault.device);
      return;
    case FaultKind::kCpuSteal: node.steal = StealOf(fault.device); return;
  }
}

void Simulation::Mend(std::uint32_t index) {
  const Fault& fault = scenario_.faults[index];
  broken_[index] = false;
  Node& node = nodes_[fault.device];
  switch (fault.kind) {
    case FaultKind::kDaemonCrash:
      if (!StillBroken(fault)) StartNode(fault.device);
      return;
    case FaultKind::kProcessKill:
      for (Gate& gate : gates_) {
        if (gate.tenant->name != fault.tenant || StillBroken(fault)) continue;
        gate.killed = false;
        if (gate.here) StartLoop(gate.first_loop);
      }
      return;
    case FaultKind::kDeviceStall: return;
    case FaultKind::kCpuSteal: node.steal = StealOf(fault.device); return;
  }
}

// -- The record ------------------------------------------------------------------------------------------------------

void Simulation::ChangeWanting(Loop& loop) {
  loop.wants = !loop.wants;
  Gate& gate = GateOf(loop);
  gate.wanting += loop.wants ? 1 : -1;
  if (loop.wants && gate.wanting == 1) gate.wants_since = now_;
  if (!loop.wants && gate.wanting == 0) CountWanting(gate);
}

/// Adds the time since `wants_since` to the record, by whole seconds.
void Simulation::CountWanting(Gate& gate) {
  std::vector<std::int64_t>& by_s = gate.record.wanting_ns_by_s;
  for (Instant from = gate.wants_since; from < now_;) {
    const std::int64_t second = (from - start_) / seconds(1);
    const Instant to = std::min(now_, start_ + seconds(second + 1));
    if (by_s.size() <= static_cast<std::size_t>(second)) by_s.resize(static_cast<std::size_t>(second) + 1);
    by_s[static_cast<std::size_t>(second)] += (to - from).count();
    from = to;
  }
  gate.wants_since = now_;
}

void Simulation::NoteMemory(Gate& gate) {
  std::vector<MemoryHeld>& held = gate.record.memory;
  const std::uint32_t slots = Elastic() ? gate.elastic.resident : gate.memory.resident;
  if (slots == (held.empty() ? 0 : held.back().slots)) return;
  held.push_back({(now_ - start_).count(), slots});
}

void Simulation::NoteCopied(Gate& gate, std::uint32_t slots) {
  if (slots == 0) return;
  std::vector<std::uint32_t>& by_s = gate.record.copied_slots_by_s;
  if (by_s.size() <= Second()) by_s.resize(Second() + 1);
  by_s[Second()] += slots;
}

/// Records the daemon's totals of its vGPUs after one more poll, whose actions are not carried out.
void Simulation::TakeBooks(std::uint32_t index) {
  Node& node = nodes_[index];
  if (!node.up) return;
  Sample(index);
  WEIR_CHECK(node.engine->Step(now_, engine::GatesSampled{samples_, memory_samples_}, node.actions).has_value());
  for (const std::uint32_t g : node.gates)
    if (gates_[g].sold) gates_[g].record.booked_ns = node.engine->GpuTotal(gates_[g].id)->count();
}

/// Checks, independently of the engine, that no loop waits too long at its gate.
void Simulation::Check() {
  constexpr std::size_t kViolationsMax = 100;
  for (Loop& loop : loops_) {
    if (loop.state != State::kWaiting || now_ - loop.starved_from < kStarvedAfter) continue;
    const Gate& gate = GateOf(loop);
    const Tenant& tenant = *gate.tenant;
    // A vGPU whose ceiling is not guaranteed gets what is left of the device, which may be nothing.
    if (nodes_[gate.node].oversell != core::OversellMode::kOff && gate.sale != core::Sale::kGuaranteed) {
      loop.starved_from = now_;
      continue;
    }
    if (now_ - loop.starved_from < PatienceOf(scenario_, run_, tenant) || violations_.size() >= kViolationsMax)
      continue;
    violations_.push_back(fmt::format("progress: {:.3f} s: '{}' has waited at its gate for {:.1f} s",
                                      SecondsOf(now_ - start_), tenant.name, SecondsOf(now_ - loop.resumed)));
    loop.starved_from = now_;  // reported again after another period of the same length
  }
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) CheckCapsNow(node);
}

}  // namespace weir::sim
