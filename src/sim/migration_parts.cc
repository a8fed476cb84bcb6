// SPDX-License-Identifier: Apache-2.0
// How the parts of a planned task run: from phase to phase, over links and copy engines that all tasks share.
#include <algorithm>
#include <cmath>

#include "sim/migration_simulation.h"

namespace weir::sim {

void MigrationSimulation::Start(std::uint32_t index) {
  Task& task = tasks_[index];
  task.record.kind = task.plan.kind;
  task.record.pieces = task.plan.here;
  task.record.kept = static_cast<double>(task.plan.kept()) / static_cast<double>(task.plan.ends.back());
  // A task that migrates as a whole is sent directly to its peer.
  if (task.plan.kind == core::PlanKind::kMigrate) return EnterPhase(index, true, Phase::kSending);
  EnterPhase(index, false, Phase::kArriving);
}

kernel::PartRange MigrationSimulation::RangeOf(const Task& task, bool there) const {
  const core::Plan& plan = task.plan;
  if (there) return {plan.dimension, plan.kept(), plan.ends.back()};
  const std::uint32_t piece = task.here.piece;
  return {plan.dimension, piece == 0 ? 0 : plan.ends[piece - 1], plan.ends[piece]};
}

void MigrationSimulation::EnterPhase(std::uint32_t index, bool there, Phase phase) {
  Task& task = tasks_[index];
  Part& part = there ? task.there : task.here;
  part.phase = phase;
  part.began = now_;
  const std::uint32_t where = there ? task.peer : task.node;
  Node& node = nodes_[where];
  const core::PartNeed whole = task.need.Of({task.plan.dimension, 0, task.plan.ends.back()});
  const bool ends =
      phase == Phase::kArriving || phase == Phase::kReturning || phase == Phase::kDone || phase == Phase::kHolding;
  const kernel::PartRange range = ends ? kernel::PartRange{} : RangeOf(task, there);
  const core::PartNeed need = ends ? whole : task.need.Of(range);
  const auto bytes = [](Bytes size) { return static_cast<double>(size.count); };
  // The time of the stretches, in bytes of the link; half of it in each direction.
  const double gaps = SecondsOf(world_.stretch) * static_cast<double>(need.stretches) * network_bytes_per_s_ / 2;
  switch (phase) {
    case Phase::kArriving: return Flow(Channel::kClientUp, task.node, index, false, bytes(whole.sent));
    case Phase::kReturning: return Flow(Channel::kClientDown, task.node, index, false, bytes(whole.returned));
    case Phase::kSending:
      task.record.network_bytes += bytes(need.sent);
      return Flow(Channel::kNetwork, task.node, index, true, bytes(need.sent) + gaps);
    case Phase::kSendingBack:
      task.record.network_bytes += bytes(need.returned);
      return Flow(Channel::kNetwork, task.peer, index, true, bytes(need.returned) + gaps);
    case Phase::kIn: {
      const bool first = range.first == 0 || there;
      const double sent = bytes(need.sent) - (first ? 0 : bytes(need.alike));
      const double setup = first ? SecondsOf(node.spec->in_setup) : 0;
      return Flow(Channel::kIn, where, index, there, setup + sent / node.spec->in_bytes_per_s);
    }
    case Phase::kOut:
      return Flow(Channel::kOut, where, index, there, bytes(need.returned) / node.spec->out_bytes_per_s);
    case Phase::kKernel: {
      const double part_of = static_cast<double>(range.count()) / static_cast<double>(task.plan.ends.back());
      const double flops = 2 * std::pow(static_cast<double>(task.size), 3) * part_of;
      const Duration takes =
          node.spec->kernel + (node.spec->flops > 0 ? FromSeconds(flops / node.spec->flops) : Duration{0});
      node.kernels_until = std::max(node.kernels_until, now_) + takes;
      node.usage.Launched(ProcessId{index + std::uint64_t{1}}, task.size * task.size);
      heap_.Push(node.kernels_until, EventKind::kBatchDone, index * 2 + (there ? 1 : 0));
      return;
    }
    case Phase::kDone: return PartDone(index);
    case Phase::kHolding: return heap_.Push(now_ + task.hold, EventKind::kBatchDone, index * 2);
    case Phase::kNone: return;
  }
}

void MigrationSimulation::LeavePhase(std::uint32_t index, bool there) {
  Task& task = tasks_[index];
  Part& part = there ? task.there : task.here;
  const std::int64_t took = (now_ - part.began).count();
  switch (part.phase) {
    case Phase::kArriving:
      task.record.transfer_ns = took;
      if (task.plan.kind == core::PlanKind::kSplit) EnterPhase(index, true, Phase::kSending);
      return EnterPhase(index, false, Phase::kIn);
    case Phase::kSending: part.network_ns += took; return EnterPhase(index, there, Phase::kIn);
    case Phase::kIn: part.input_ns += took; return EnterPhase(index, there, Phase::kKernel);
    case Phase::kKernel:
      part.kernel_ns += took;
      nodes_[there ? task.peer : task.node].usage.Finished(ProcessId{index + std::uint64_t{1}}, task.size * task.size);
      return EnterPhase(index, there, Phase::kOut);
    case Phase::kOut:
      part.output_ns += took;
      if (there) {
        Free(task.peer, index);
        return EnterPhase(index, true, Phase::kSendingBack);
      }
      if (++part.piece < task.plan.here) return EnterPhase(index, false, Phase::kIn);
      return EnterPhase(index, false, Phase::kDone);
    case Phase::kSendingBack: part.network_ns += took; return EnterPhase(index, true, Phase::kDone);
    case Phase::kReturning: task.record.return_ns = took; return End(index);
    case Phase::kHolding: return Free(task.node, index);
    case Phase::kDone:
    case Phase::kNone: return;
  }
}

/// A part is done. When all are, records the times of the part for which copies and kernel took longer.
void MigrationSimulation::PartDone(std::uint32_t index) {
  Task& task = tasks_[index];
  const bool both = task.plan.kind == core::PlanKind::kSplit;
  if (both && (task.here.phase != Phase::kDone || task.there.phase != Phase::kDone)) return;
  const auto gpu = [](const Part& part) { return part.input_ns + part.kernel_ns + part.output_ns; };
  const Part& longer = gpu(task.here) > gpu(task.there) ? task.here : task.there;
  task.record.input_ns = longer.input_ns;
  task.record.kernel_ns = longer.kernel_ns;
  task.record.output_ns = longer.output_ns;
  task.record.network_ns = task.there.network_ns;
  if (task.plan.kind == core::PlanKind::kMigrate) return End(index);
  EnterPhase(index, false, Phase::kReturning);
}

void MigrationSimulation::End(std::uint32_t index) {
  Task& task = tasks_[index];
  task.done = true;
  task.record.start_ns = NsOf(task.start);
  task.record.end_ns = NsOf(now_);
  Note(static_cast<std::uint64_t>(NsOf(now_)));
  if (task.plan.kind != core::PlanKind::kMigrate) EnterPhase(index, false, Phase::kHolding);
}

// -- Links and copy engines ------------------------------------------------------------------------------------------

void MigrationSimulation::Flow(Channel channel, std::uint32_t node, std::uint32_t task, bool there, double amount) {
  const bool of_client = channel == Channel::kClientUp || channel == Channel::kClientDown;
  Of(channel, node).link.Add(now_, task * 2 + (there ? 1 : 0), amount, of_client ? tasks_[task].weight : 1);
  Arm(channel, node);
}

void MigrationSimulation::Arm(Channel channel, std::uint32_t node) {
  Flowing& flowing = Of(channel, node);
  ++flowing.stamp;
  if (const auto next = flowing.link.NextDone())
    heap_.Push(*next, EventKind::kFlow,
               static_cast<std::uint32_t>(static_cast<std::size_t>(channel) * nodes_.size()) + node, flowing.stamp);
}

void MigrationSimulation::Drain(Channel channel, std::uint32_t node) {
  const std::vector<std::uint32_t> done = Of(channel, node).link.TakeDone(now_);
  Arm(channel, node);
  for (const std::uint32_t flow : done) LeavePhase(flow / 2, flow % 2 == 1);
}

}  // namespace weir::sim
