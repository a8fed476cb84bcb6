// SPDX-License-Identifier: Apache-2.0
// Memory in a run: executors that carry out the daemon's memory orders, gVirt's slots, and the CPU time of copying.
#include <algorithm>

#include "base/check.h"
#include "sim/simulation.h"

namespace weir::sim {
namespace {

// As in the OpenCL executor: buffers that a program has touched within these times are in use, and needed.
constexpr Duration kInUse = milliseconds(500);
constexpr Duration kWanted = seconds(1);
/// Shorter waits for memory are not recorded.
constexpr Duration kLongWait = seconds(1);

Bytes OfSlots(double slots) { return Bytes{static_cast<std::uint64_t>(slots * static_cast<double>(kSlotBytes.count))}; }

}  // namespace

/// Prepares gVirt's memory. Other modes need nothing: the engine's orders and limits set their memory up.
void Simulation::StartMemory(std::uint32_t index) {
  if (run_.memory != MemoryMode::kSwitched) return;
  Node& node = nodes_[index];
  const Device& device = scenario_.devices[index];
  node.switched = std::make_unique<SwitchedMemory>(SlotsFor(device.memory), device.entries, device.returned);
  for (const std::uint32_t g : node.gates) node.switched->Add(gates_[g].id, SlotsFor(gates_[g].settings.memory_max));
  // The time of a switch delays the batch. Buffers that do not fit are returned and bound within the frame, and the
  // device waits meanwhile, since no other vGPU runs in a vGPU's slice.
  node.device.SetStartDelay([this, &memory = *node.switched](const core::DeviceCommand& batch) {
    const Gate& gate = GateOf(loops_[LoopOf(batch)]);
    if (gate.memory.footprint == 0) return Duration{};
    return memory.Switch(gate.id) + (LastOfFrame(batch) ? memory.Returns(gate.id, gate.memory.footprint) : Duration{});
  });
}

/// Sets the tenant's buffers to those of the loop's scene; where a tenant has several loops, to the largest of theirs.
void Simulation::UseScene(Loop& loop) {
  Gate& gate = GateOf(loop);
  const auto of = [&](const Loop& one) {
    const std::vector<Scene>& scenes = gate.tenant->scenes;
    return scenes.empty() ? gate.tenant->memory : scenes[one.scene].memory.value_or(gate.tenant->memory);
  };
  Bytes most = of(loop);
  for (std::uint32_t i = 0; i < LoopsOf(gate); ++i)
    if (loops_[gate.first_loop + i].state != State::kAbsent) most = std::max(most, of(loops_[gate.first_loop + i]));
  const std::uint32_t slots = SlotsFor(most);
  if (run_.memory == MemoryMode::kElastic) {
    gate.elastic.wants = slots;
  } else if (slots != gate.memory.footprint) {
    NodeOf(loop).memory.Resize(gate.memory, slots);
    NoteMemory(gate);
  }
}

/// True: all slots that the frame may have are on the device, and the buffers that do not fit have been copied through.
/// Otherwise the loop waits, and CallPresent is called again when that is the case.
bool Simulation::Fetch(std::uint32_t index) {
  Loop& loop = loops_[index];
  Gate& gate = GateOf(loop);
  if (gate.elastic.wants == 0) return true;
  if (!gate.elastic.Ready()) {
    SetState(loop, State::kFetching);
    loop.queues_for_memory = true;
    loop.fetch_from = now_;
    ++gate.elastic.waiting;
    NoteWanting(index);
    AdvanceMemory(loop.gate);
    RingNow(gate.node);
    return false;
  }
  gate.touched = now_;
  if (gate.elastic.Spilled() == 0 || std::exchange(loop.passed, true)) return true;
  SetState(loop, State::kFetching);
  NoteCopied(gate, gate.elastic.Spilled());
  NoteWanting(index);
  Push(GateOf(loop).node, NodeOf(loop).elastic.Pass(now_, gate.elastic), EventKind::kPassed, index, ++loop.stamp);
  return false;
}

/// True: while the loop waited at its gate, another vGPU got the slots. It gives its reservation back, so that no other
/// program waits for it, and comes to the gate again when its memory has been restored.
bool Simulation::MemoryIsGone(std::uint32_t index) {
  Loop& loop = loops_[index];
  Gate& gate = GateOf(loop);
  if (gate.elastic.wants == 0 || gate.elastic.Ready()) return false;
  if (std::exchange(loop.entered, false)) Charge(gate, -loop.reserved);
  return !Fetch(index);
}

/// The slots that the frame uses are not evicted until it is done.
void Simulation::Pin(Loop& loop) {
  if (GateOf(loop).elastic.wants == 0 || std::exchange(loop.pinned, true)) return;
  ++loop.pins;
  ++GateOf(loop).elastic.pinned;
}

void Simulation::Unpin(Loop& loop, std::uint32_t pins) {
  Gate& gate = GateOf(loop);
  loop.pins -= pins;
  gate.elastic.pinned -= pins;
  gate.touched = now_;
  if (gate.elastic.pinned == 0) AdvanceMemory(loop.gate);
}

/// Called when the loop's process ends: its queued work is forgotten, but the batch on the device runs to its end.
void Simulation::LeaveMemory(Loop& loop) {
  if (!Elastic()) return;
  Gate& gate = GateOf(loop);
  NoteMemoryWait(loop);
  if (std::exchange(loop.queues_for_memory, false)) --gate.elastic.waiting;
  const std::uint32_t pins = std::exchange(loop.pins, 0);
  gate.elastic.pinned -= pins;
}

void Simulation::TakeOrder(std::uint32_t index, const engine::MemoryGrant& grant) {
  Gate& gate = gates_[index];
  const auto note = [this](std::vector<MemoryHeld>& series, std::uint32_t slots) {
    if (slots != (series.empty() ? 0 : series.back().slots)) series.push_back({(now_ - start_).count(), slots});
  };
  gate.elastic.held = grant.limit;
  gate.elastic.here = grant.here;
  gate.elastic.rings |= !gate.elastic.Done();
  note(gate.record.held, grant.limit);
  note(gate.record.here, grant.here);
}

/// Does what can be done now: begins copies, and continues frames that have all their memory. Rings the doorbell when
/// an order has been carried out.
void Simulation::AdvanceMemory(std::uint32_t index) {
  Gate& gate = gates_[index];
  Node& node = nodes_[gate.node];
  const double before = gate.elastic.copied_in;
  if (const auto end = node.elastic.Next(now_, gate.elastic))
    Push(gate.node, *end, EventKind::kCopied, index, ++gate.copy_stamp);
  NoteCopied(gate, static_cast<std::uint32_t>(gate.elastic.copied_in - before));
  NoteMemory(gate);
  if (gate.elastic.Done() && std::exchange(gate.elastic.rings, false)) RingNow(gate.node);
  while (gate.elastic.waiting > 0 && gate.elastic.Ready()) {
    std::uint32_t first = gate.first_loop + LoopsOf(gate);
    for (std::uint32_t l = gate.first_loop; l < gate.first_loop + LoopsOf(gate); ++l)
      if (loops_[l].queues_for_memory &&
          (first == gate.first_loop + LoopsOf(gate) || loops_[l].fetch_from < loops_[first].fetch_from))
        first = l;
    Loop& loop = loops_[first];
    NoteMemoryWait(loop);
    loop.queues_for_memory = false;
    --gate.elastic.waiting;
    CallPresent(first);
  }
}

void Simulation::SampleMemory(Gate& gate, std::uint32_t threads) {
  const ElasticHolding& h = gate.elastic;
  if (gate.sampled > Instant{}) gate.elsewhere += threads * (now_ - gate.sampled);
  gate.sampled = now_;
  const bool now = h.pinned > 0 || h.waiting > 0;
  memory_samples_.push_back({.vgpu = gate.id,
                             .done = h.Done(),
                             .stats = {.resident_slots = h.resident,
                                       .resident = OfSlots(h.resident),
                                       .need = OfSlots(now || now_ - gate.touched < kWanted ? h.wants : 0),
                                       .must = OfSlots(h.Must()),
                                       .in_use = OfSlots(now || now_ - gate.touched < kInUse ? h.wants : 0),
                                       .made = OfSlots(h.wants),
                                       .copied_out = OfSlots(h.copied_out),
                                       .copied_in = OfSlots(h.copied_in),
                                       .evictions = h.evictions,
                                       .switch_copy = h.switch_copy,
                                       .steal = gate.steal,
                                       .elsewhere = std::max(gate.elsewhere - gate.steal, Duration{}),
                                       .threads = threads}});
}

void Simulation::NoteMemoryWait(Loop& loop) {
  if (!loop.queues_for_memory || now_ - loop.fetch_from < kLongWait) return;
  GateOf(loop).record.memory_waits.push_back({(loop.fetch_from - start_).count(), (now_ - start_).count()});
}

/// Fraction of the programs' CPU time that they do not get: what other programs take, and what copying takes.
double Simulation::StealBesideCopies(Node& node, std::uint32_t index) {
  const Device& device = scenario_.devices[index];
  const double cpus = run_.copy_cpus.value_or(device.copy_cpus);
  if (cpus <= 0) return node.steal;
  const Duration copying = node.switched ? node.switched->copying() : node.elastic.link().Busy(now_);
  const double taken = std::min(cpus / device.cpus, 1.0) * node.copying.Of(now_, copying);
  return std::min(1 - (1 - node.steal) * (1 - taken), 0.95);
}

}  // namespace weir::sim
