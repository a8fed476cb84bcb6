// SPDX-License-Identifier: Apache-2.0
// The nodes of a run: devices, looks, faults, and the checkers' own look at them.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "sim/simulation.h"

namespace weir::sim {
namespace {

constexpr Duration kLookSpacing = microseconds(200);  // as the daemon's
/// A loop that waits at its gate for longer than this, with nobody pausing it, is starved.
constexpr Duration kStarvedAfter = seconds(5);

}  // namespace

void Simulation::StartNode(std::uint32_t index) {
  Node& node = nodes_[index];
  node.engine = std::make_unique<engine::NodeEngine>(
      std::vector<engine::DeviceSpec>{{.name = scenario_.devices[index].name, .kind = "gpu", .cpus = {}}});
  node.up = true;
  Step(index, engine::SetPolicy{"", node.policy, node.params});
  for (const std::uint32_t gate : node.gates) {
    gates_[gate].allowance_ns = 0;
    gates_[gate].mode = proto::GateMode::kOpen;
    gates_[gate].interval = Duration{0};
    Step(index, engine::CreateVgpu{gates_[gate].tenant->name, "", gates_[gate].settings, gates_[gate].id});
  }
}

void Simulation::BatchDone(std::uint32_t index) {
  Node& node = nodes_[index];
  const Batch batch = node.device.current();
  if (node.device.Done(now_)) heap_.Push(node.device.done_at(), EventKind::kBatchDone, index, node.batch_stamp);
  Loop& loop = loops_[batch.loop];
  TenantRecord& record = GateOf(loop).record;
  record.gpu_ns += batch.work.count();
  const auto second = static_cast<std::size_t>((now_ - start_) / seconds(1));
  if (record.gpu_ns_by_s.size() <= second) record.gpu_ns_by_s.resize(second + 1);
  record.gpu_ns_by_s[second] += batch.work.count();
  --loop.under_way;
  if (loop.state == State::kAbsent) return;
  loop.finished += batch.work;
  if (loop.state == State::kQueueing || loop.state == State::kSynchronising) Queue(batch.loop);
}

// -- The daemon ------------------------------------------------------------------------------------------------------

void Simulation::LookAt(std::uint32_t index, Instant when) {
  Node& node = nodes_[index];
  node.look_at = when == core::kNever ? when : std::max({when, node.looked + kLookSpacing, now_});
  ++node.look_stamp;
  if (when != core::kNever) heap_.Push(node.look_at, EventKind::kLook, index, node.look_stamp);
}

void Simulation::RingBell(std::uint32_t index) {
  if (nodes_[index].up && nodes_[index].look_at == core::kNever) LookAt(index, now_);
}

void Simulation::Look(std::uint32_t index) {
  Node& node = nodes_[index];
  if (!node.up) return;
  ++looks_;
  node.looked = now_;
  samples_.clear();
  for (const std::uint32_t g : node.gates) {
    const Gate& gate = gates_[g];
    engine::GateSample sample{.vgpu = gate.id, .allowance_ns = gate.allowance_ns};
    bool attached = false;
    for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) {
      const Loop& loop = loops_[gate.first_loop + i];
      if (!loop.process) continue;
      attached = true;
      sample.waiting += loop.state == State::kWaiting ? 1 : 0;
      sample.in_flight += loop.entered ? 1 : 0;
    }
    if (attached) samples_.push_back(sample);
  }
  WEIR_CHECK(node.engine->Step(now_, engine::GatesSampled{samples_}, node.actions).has_value());
  Carry(index);
  LookAt(index, node.actions.look_again);
}

void Simulation::Housekeep(std::uint32_t index) {
  Node& node = nodes_[index];
  node.housekeeping = false;
  for (const std::uint32_t g : node.gates) {
    Gate& gate = gates_[g];
    if (gate.done.empty()) continue;
    if (node.up) {
      engine::Actions none;
      WEIR_CHECK(node.engine->Step(now_, engine::FramesDone{gate.id, gate.done, 0, 0}, none).has_value());
    }
    gate.done.clear();
  }
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
  Mix(static_cast<std::uint64_t>(NsOf(now_)));
  Mix(index);
  // Waking may lead to another step, so what is to be woken is collected first.
  std::vector<std::uint32_t> woken;
  const auto gate_of = [&](VgpuId id) { return static_cast<std::uint32_t>(id.value - 1); };
  for (const engine::Publish& publish : node.actions.publish) {
    Gate& gate = gates_[gate_of(publish.vgpu)];
    gate.mode = publish.mode;
    gate.interval = publish.frame_interval;
    gate.sync = publish.sync;
    woken.push_back(gate_of(publish.vgpu));
    Mix(publish.vgpu.value * 4 + static_cast<std::uint64_t>(publish.mode));
    Mix(static_cast<std::uint64_t>(publish.frame_interval.count()));
  }
  for (const engine::Grant& grant : node.actions.grant) {
    std::int64_t& allowance = gates_[gate_of(grant.vgpu)].allowance_ns;  // wraps, as the gate's atomic does
    allowance =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(allowance) + static_cast<std::uint64_t>(grant.delta_ns));
    if (grant.wake) woken.push_back(gate_of(grant.vgpu));
    Mix(grant.vgpu.value * 2 + (grant.wake ? 1 : 0));
    Mix(static_cast<std::uint64_t>(grant.delta_ns));
  }
  actions_ += node.actions.publish.size() + node.actions.grant.size() + node.actions.tell.size();
  for (const std::uint32_t gate : woken) WakeGate(gate);
}

/// As a futex does: everybody who waits looks again, and the allowance goes to who comes first.
void Simulation::WakeGate(std::uint32_t index) {
  Gate& gate = gates_[index];
  bool waits = false;
  for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) {
    const std::uint32_t l = gate.first_loop + i;
    Loop& loop = loops_[l];
    if (loop.state == State::kPaced && gate.interval != loop.interval) {
      ++loop.stamp;
      loop.resumed = now_;
      KeepPace(l);
    } else if (loop.state == State::kWaiting) {
      const bool pass = !loop.process || gate.mode == proto::GateMode::kOpen ||
                        (gate.mode == proto::GateMode::kGated && gate.allowance_ns > 0);
      if (pass) {
        loop.entered = loop.process.value != 0;
        if (loop.entered) gate.allowance_ns -= loop.reserved.count();
        PassGate(l);
      }
    }
    waits |= loop.state == State::kWaiting;
  }
  if (!waits) gate.waits_since = Instant::max();
}

void Simulation::Attach(std::uint32_t index) {
  Loop& loop = loops_[index];
  loop.process = ProcessId{next_process_++};
  loop.reported = loop.finished;  // what was rendered while nobody kept books is charged to nobody
  Step(GateOf(loop).node, engine::ProcessAttached{GateOf(loop).id, loop.process});
}

// -- Changes and faults ----------------------------------------------------------------------------------------------

void Simulation::Apply(const Change& change) {
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!change.tenant.empty()) break;
    nodes_[n].policy = change.policy;
    nodes_[n].params = change.params;
    if (nodes_[n].up) Step(n, engine::SetPolicy{"", change.policy, change.params});
  }
  for (Gate& gate : gates_) {
    if (gate.tenant->name != change.tenant) continue;
    gate.settings = change.settings;
    if (nodes_[gate.node].up) Step(gate.node, engine::SetVgpu{gate.id, change.settings});
  }
}

void Simulation::Break(const Fault& fault) {
  Node& node = nodes_[fault.device];
  switch (fault.kind) {
    case FaultKind::kDaemonCrash:
      // Agents see it and fail open: nobody waits, nobody is paced, until it is back.
      node.up = false;
      node.engine.reset();
      LookAt(fault.device, core::kNever);
      for (const std::uint32_t g : node.gates) {
        for (std::uint32_t i = 0; i < LoopsOf(gates_[g]); ++i) {
          Loop& loop = loops_[gates_[g].first_loop + i];
          loop.process = {};
          loop.entered = false;
        }
        gates_[g].interval = Duration{0};
        gates_[g].mode = proto::GateMode::kOpen;
        WakeGate(g);
      }
      return;
    case FaultKind::kProcessKill:
      for (const Gate& gate : gates_)
        if (gate.tenant->name == fault.tenant) StopLoop(gate.first_loop);
      return;
    case FaultKind::kDeviceStall: node.device.Stall(start_ + fault.until); return;
    case FaultKind::kCpuSteal: node.steal = std::clamp(fault.amount, 0.0, 0.95); return;
  }
}

void Simulation::Mend(const Fault& fault) {
  Node& node = nodes_[fault.device];
  switch (fault.kind) {
    case FaultKind::kDaemonCrash: return StartNode(fault.device);
    case FaultKind::kProcessKill:
      for (const Gate& gate : gates_)
        if (gate.tenant->name == fault.tenant && gate.here) StartLoop(gate.first_loop);
      return;
    case FaultKind::kDeviceStall: return;
    case FaultKind::kCpuSteal: node.steal = scenario_.devices[fault.device].cpu_steal; return;
  }
}

/// Apart from the engine: a loop that waits must get on.
void Simulation::Check() {
  constexpr std::size_t kViolationsMax = 100;
  for (Gate& gate : gates_) {
    if (now_ - gate.waits_since < kStarvedAfter || violations_.size() >= kViolationsMax) continue;
    violations_.push_back(fmt::format("{:.3f} s: '{}' has waited at its gate for {:.1f} s", SecondsOf(now_ - start_),
                                      gate.tenant->name, SecondsOf(now_ - gate.waits_since)));
    gate.waits_since = now_;
  }
}

}  // namespace weir::sim
