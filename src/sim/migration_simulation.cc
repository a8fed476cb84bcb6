// SPDX-License-Identifier: Apache-2.0
// Decisions about tasks: asking for room, plans, waiting. The parts of a plan run in migration_parts.cc.
#include "sim/migration_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace weir::sim {
namespace {

constexpr Bytes kControlBytes{256};  // size of a control message with its headers
constexpr double kAtOnce = 1e18;     // bytes/s of an interface that takes no time
constexpr core::ChoiceTimes kChoiceTimes{};

ProcessId OwnerOf(std::uint32_t task) { return ProcessId{task + std::uint64_t{1}}; }
NodeId IdOf(std::uint32_t node) { return NodeId{node + std::uint64_t{1}}; }
std::uint32_t IndexOf(NodeId id) { return static_cast<std::uint32_t>(id.value - 1); }

}  // namespace

MigrationSimulation::Node::Node(const MigrationNode& from, const core::ChoiceTimes& times)
    : spec(&from), usage(from.memory), choice(times), clock(from.clock_ahead, from.clock_ppm) {}

MigrationSimulation::MigrationSimulation(const Scenario& scenario, const Run& run, std::uint64_t seed)
    : world_(*scenario.migration),
      run_(run.migration),
      scenario_(scenario),
      network_bytes_per_s_(run_.network_bytes_per_s > 0 ? run_.network_bytes_per_s : world_.network.bytes_per_s),
      now_(InstantFromNs(0)),
      network_(world_.network, seed) {
  out_.label = run.label;
  out_.digest = 14695981039346656037ULL;  // FNV-1a's
  channels_.resize(kChannels);
  for (std::uint32_t i = 0; i < world_.nodes.size(); ++i) {
    const MigrationNode& spec = world_.nodes[i];
    nodes_.emplace_back(spec, kChoiceTimes);
    const double client = spec.client_bytes_per_s > 0 ? spec.client_bytes_per_s : kAtOnce;
    const std::array rates{client, client, 1.0, 1.0, network_bytes_per_s_};  // in the order of Channel
    for (std::size_t channel = 0; channel < rates.size(); ++channel)
      channels_[channel].push_back({FairLink(rates[channel])});
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    std::vector<NodeId> others;
    for (std::uint32_t other = 0; other < nodes_.size(); ++other)
      if (other != i) others.push_back(IdOf(other));
    nodes_[i].choice.SetNodes(others);
  }
  Prng prng(seed);
  for (const MigrationTask& spec : world_.tasks) {
    const auto given = run_.copies.find(spec.name);
    const int copies = given != run_.copies.end() ? given->second : spec.copies;
    const auto size = run_.sizes.find(spec.name);
    for (int copy = 1; copy <= copies; ++copy) {
      Task& task = tasks_.emplace_back();
      task.name = spec.copies > 1 ? fmt::format("{}-{}", spec.name, copy) : spec.name;
      task.node = spec.node;
      task.start = now_ + spec.start;
      task.managed = spec.managed && run_.shortage != Shortage::kIgnore;
      task.hold = spec.hold;
      task.size = size != run_.sizes.end() ? size->second : spec.size;
      task.weight = 1 + world_.nodes[spec.node].client_spread * (2 * prng.Uniform() - 1);
      task.need = core::MatrixProductNeed(task.size, kGroupSide);
      task.view.groups = {task.size / kGroupSide, task.size / kGroupSide, 1};
      heap_.Push(task.start, EventKind::kArrive, static_cast<std::uint32_t>(tasks_.size() - 1));
    }
  }
  for (Task& task : tasks_) task.view.need = &task.need;  // not before: tasks moved while the vector grew
  for (std::uint32_t i = 0; i < world_.partings.size(); ++i) {
    heap_.Push(now_ + world_.partings[i].at, EventKind::kFault, i);
    heap_.Push(now_ + world_.partings[i].until, EventKind::kMend, i);
  }
}

void MigrationSimulation::RunUntil(Duration at) {
  const Instant until = InstantFromNs(0) + at;
  while (!heap_.empty() && heap_.Next().at_ns <= NsOf(until)) {
    const Event event = heap_.Pop();
    now_ = InstantFromNs(event.at_ns);
    ++out_.events;
    const std::uint32_t i = event.subject;
    switch (event.kind) {
      case EventKind::kArrive: Begin(i); break;
      case EventKind::kMessage: Receive(Message(messages_[i])); break;
      case EventKind::kDeadline: Tick(i); break;
      case EventKind::kDecided: Start(i); break;
      case EventKind::kFault: network_.Part(world_.partings[i].a, world_.partings[i].b); break;
      case EventKind::kMend: network_.Heal(world_.partings[i].a, world_.partings[i].b); break;
      case EventKind::kBatchDone: LeavePhase(i / 2, i % 2 == 1); break;
      case EventKind::kFlow: {
        const auto nodes = static_cast<std::uint32_t>(nodes_.size());
        const auto channel = static_cast<Channel>(i / nodes);
        if (Of(channel, i % nodes).stamp == event.stamp) Drain(channel, i % nodes);
        break;
      }
      default: break;  // events of the other simulations
    }
  }
}

void MigrationSimulation::Note(std::uint64_t what) {
  ++out_.actions;
  for (int byte = 0; byte < 8; ++byte) out_.digest = (out_.digest ^ ((what >> (8 * byte)) & 0xFF)) * 1099511628211ULL;
}

// -- What is done with a task ----------------------------------------------------------------------------------------

void MigrationSimulation::Begin(std::uint32_t index) {
  Task& task = tasks_[index];
  Node& node = nodes_[task.node];
  const Bytes need = task.need.Of({1, 0, task.view.groups[1]}).device;
  const bool always = run_.shortage == Shortage::kPlan && run_.mode == core::PartitionMode::kAlways;
  if (!task.managed || (need <= node.keeper.Free(node.usage) && !always)) {
    task.plan = {.kind = core::PlanKind::kHere,
                 .reason = core::PlanReason::kFits,
                 .dimension = 1,
                 .ends = {task.view.groups[1]},
                 .here = 1};
    AllocateHere(index);
    return Start(index);
  }
  if (run_.shortage == Shortage::kWait) return Wait(index);
  if (run_.shortage == Shortage::kPlan && run_.mode == core::PartitionMode::kStay) return Decide(index, 0, NodeId{});
  Ask(index);
}

void MigrationSimulation::Ask(std::uint32_t index) {
  Task& task = tasks_[index];
  Node& node = nodes_[task.node];
  std::vector<core::ChoiceStep> steps;
  const Bytes need = task.need.Of({1, 0, task.view.groups[1]}).device;
  // A question may be answered within the call, so the task is noted first, with the number that it will get.
  node.asking.emplace_back(node.choice.counts().asked + 1, index);
  task.record.asked_ns -= NsOf(now_);
  WEIR_CHECK(node.choice.Ask(ClockOf(node), need, steps) == node.asking.back().first);
  Carry(task.node, steps);
}

void MigrationSimulation::Carry(std::uint32_t from, const std::vector<core::ChoiceStep>& steps) {
  using Kind = core::ChoiceStep::Kind;
  for (const core::ChoiceStep& step : steps) {
    if (step.kind == Kind::kChosen || step.kind == Kind::kNone) {
      std::vector<std::pair<std::uint64_t, std::uint32_t>>& asking = nodes_[from].asking;
      const auto found = std::ranges::find(asking, step.number, &std::pair<std::uint64_t, std::uint32_t>::first);
      WEIR_CHECK(found != asking.end());
      const std::uint32_t task = found->second;
      asking.erase(found);
      tasks_[task].record.asked_ns += NsOf(now_);
      Decide(task, step.number, step.node);
      continue;
    }
    const auto kind = step.kind == Kind::kAsk    ? Message::Kind::kAsk
                      : step.kind == Kind::kTake ? Message::Kind::kTake
                                                 : Message::Kind::kDrop;
    Send({.kind = kind, .from = from, .to = IndexOf(step.node), .number = step.number, .size = step.need});
  }
  Tick(from);
}

void MigrationSimulation::Send(const Message& message) {
  const auto there = network_.Send(now_, message.from, message.to, kControlBytes);
  if (!there) return;
  messages_.push_back(message);
  heap_.Push(*there, EventKind::kMessage, static_cast<std::uint32_t>(messages_.size() - 1));
}

void MigrationSimulation::Receive(const Message& message) {
  using Kind = Message::Kind;
  Node& node = nodes_[message.to];
  const NodeId from = IdOf(message.from);
  std::vector<core::ChoiceStep> steps;
  Message reply{.from = message.to, .to = message.from, .number = message.number};
  switch (message.kind) {
    case Kind::kAsk:
      if (const auto offer = node.keeper.Ask(ClockOf(node), {from, message.number, message.size}, node.usage)) {
        reply.kind = Kind::kOffer;
        reply.size = offer->room;
        reply.threads = offer->threads;
        Send(reply);
      }
      return;
    case Kind::kTake:
      reply.kind = node.keeper.Take(ClockOf(node), from, message.number, node.usage) ? Kind::kTaken : Kind::kRefused;
      return Send(reply);
    case Kind::kDrop: return node.keeper.Drop(from, message.number);
    case Kind::kOffer:
      node.choice.Answer(ClockOf(node), from, {message.number, message.size, message.threads}, steps);
      break;
    case Kind::kTaken: node.choice.Taken(ClockOf(node), from, message.number, steps); break;
    case Kind::kRefused: node.choice.Refused(ClockOf(node), from, message.number, steps); break;
  }
  Carry(message.to, steps);
}

void MigrationSimulation::Tick(std::uint32_t index) {
  Node& node = nodes_[index];
  std::vector<core::ChoiceStep> steps;
  const Instant next = node.choice.Tick(ClockOf(node), steps);
  if (!steps.empty()) return Carry(index, steps);
  if (next == Instant::max() || next == node.tick_at) return;
  node.tick_at = next;
  heap_.Push(now_ + node.clock.Takes(next - ClockOf(node)), EventKind::kDeadline, index);
}

core::DeviceView MigrationSimulation::ViewOf(std::uint32_t index, Bytes room, const Task& task) {
  Node& node = nodes_[index];
  const double used = static_cast<double>(node.usage.used().count);
  const double over = std::max(0.0, used / static_cast<double>(node.spec->memory.count) - 1);
  const auto shared = [&](Channel channel, double rate) {
    return rate / static_cast<double>(Of(channel, index).link.flows() + 1) / (1 + node.spec->slow * over);
  };
  const double groups = static_cast<double>(task.view.groups[0]) * static_cast<double>(task.view.groups[1]);
  return {.room = room,
          .total = node.spec->memory,
          .in_bytes_per_s = shared(Channel::kIn, node.spec->in_bytes_per_s),
          .out_bytes_per_s = shared(Channel::kOut, node.spec->out_bytes_per_s),
          .queue = std::max(node.kernels_until - now_, Duration{0}) + node.spec->in_setup,
          .launch = node.spec->kernel,
          .group_s =
              node.spec->flops > 0 ? 2 * std::pow(static_cast<double>(task.size), 3) / node.spec->flops / groups : 0};
}

void MigrationSimulation::Decide(std::uint32_t index, std::uint64_t number, NodeId chosen) {
  Task& task = tasks_[index];
  Node& node = nodes_[task.node];
  const Bytes need = task.need.Of({1, 0, task.view.groups[1]}).device;
  std::optional<core::PeerView> peer;
  const auto shared = [](double rate, std::size_t flows) { return rate / static_cast<double>(flows + 1); };
  if (chosen) {
    const FairLink& link = Of(Channel::kNetwork, task.node).link;
    peer = core::PeerView{.id = chosen,
                          .device = ViewOf(IndexOf(chosen), need, task),
                          .link = {.bytes_per_s = shared(network_bytes_per_s_, link.flows()),
                                   .latency = world_.network.latency,
                                   .stretch = world_.stretch}};
  }
  task.view.client_bytes_per_s = shared(node.spec->client_bytes_per_s, Of(Channel::kClientUp, task.node).link.flows());
  if (run_.shortage == Shortage::kMigrate) {
    task.plan = core::Plan{};
    if (peer)
      task.plan = {.kind = core::PlanKind::kMigrate,
                   .reason = core::PlanReason::kAsked,
                   .dimension = 1,
                   .ends = {task.view.groups[1]},
                   .nodes = {chosen}};
  } else {
    const core::DeviceView here = ViewOf(task.node, node.keeper.Free(node.usage), task);
    task.plan = core::MakePlan(run_.mode, task.view, here, peer, run_.params);
  }
  if (chosen) {
    task.peer = IndexOf(chosen);
    core::RoomKeeper& keeper = nodes_[task.peer].keeper;
    // From now on the memory that the plan needs on the peer counts as allocated; the rest of what the peer had held
    // for this question is free.
    keeper.Begin(ClockOf(nodes_[task.peer]), IdOf(task.node), number);
    if (task.plan.Leaves()) {
      const kernel::PartRange range = RangeOf(task, true);
      Allocate(task.peer, index, task.need.Of(range).device);
    }
  }
  Note(static_cast<std::uint64_t>(task.plan.kind) << 32 | task.plan.kept());
  if (task.plan.ends.empty()) return Wait(index);
  // The memory here is allocated from the decision on.
  if (task.plan.here > 0) AllocateHere(index);
  task.record.decided_ns += world_.decide.count();
  heap_.Push(now_ + world_.decide, EventKind::kDecided, index);
}

void MigrationSimulation::Wait(std::uint32_t index) {
  Task& task = tasks_[index];
  task.waits = true;
  task.waits_since = now_;
}

/// Memory was freed: tasks that wait begin again, in their order.
void MigrationSimulation::Freed() {
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    if (!tasks_[i].waits) continue;
    tasks_[i].waits = false;
    tasks_[i].record.waited_ns += NsOf(now_) - NsOf(tasks_[i].waits_since);
    Begin(i);
  }
}

void MigrationSimulation::Allocate(std::uint32_t index, std::uint32_t task, Bytes size) {
  Node& node = nodes_[index];
  const bool must_fit =
      tasks_[task].managed && !(run_.shortage == Shortage::kPlan && run_.mode == core::PartitionMode::kPaper);
  if (must_fit && size > node.usage.free())
    out_.violations.push_back(fmt::format("{} was given {} bytes on {}, which has {} free", tasks_[task].name,
                                          size.count, node.spec->name, node.usage.free().count));
  node.usage.Allocated(OwnerOf(task), size);
  Memory(index);
}

void MigrationSimulation::AllocateHere(std::uint32_t index) {
  const Task& task = tasks_[index];
  Bytes most{};
  std::uint64_t first = 0;
  for (std::uint32_t piece = 0; piece < task.plan.here; ++piece) {
    most = std::max(most, task.need.Of({task.plan.dimension, first, task.plan.ends[piece]}).device);
    first = task.plan.ends[piece];
  }
  Allocate(task.node, index, most);
}

void MigrationSimulation::Free(std::uint32_t index, std::uint32_t task) {
  nodes_[index].usage.Gone(OwnerOf(task));
  Memory(index);
  Freed();
}

/// The allocated memory has changed: adapts the speed of copies (MigrationNode::slow).
void MigrationSimulation::Memory(std::uint32_t index) {
  Node& node = nodes_[index];
  const double used = static_cast<double>(node.usage.used().count);
  const double over = std::max(0.0, used / static_cast<double>(node.spec->memory.count) - 1);
  for (const Channel channel : {Channel::kIn, Channel::kOut}) {
    Of(channel, index).link.SetRate(now_, 1 / (1 + node.spec->slow * over));
    Arm(channel, index);
  }
}

RunRecord MigrationSimulation::Take() {
  RunRecord out = out_;
  out.span_ns = scenario_.span.count();
  for (const Task& task : tasks_) {
    TenantRecord& tenant = out.tenants.emplace_back();
    tenant.name = task.name;
    const auto span_s = static_cast<std::size_t>((out.span_ns + 999'999'999) / 1'000'000'000);
    tenant.gpu_ns_by_s.resize(span_s);
    tenant.frames_by_s.resize(span_s);
    if (!task.done) {
      out.violations.push_back(fmt::format("{} is not done after {:g} s", task.name, SecondsOf(scenario_.span)));
      continue;
    }
    const TaskRecord& record = task.record;
    tenant.tasks.push_back(record);
    tenant.gpu_ns = record.kernel_ns;
    tenant.frame_count = 1;
    tenant.frames.push_back({.end_ns = record.end_ns,
                             .latency_ns = record.end_ns - record.start_ns,
                             .gpu_ns = record.kernel_ns,
                             .wait_ns = record.waited_ns});
  }
  return out;
}

}  // namespace weir::sim
