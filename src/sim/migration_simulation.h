// SPDX-License-Identifier: Apache-2.0
// One run of a migration scenario in virtual time. A simulation of its own beside simulation.h: that one plays a node's
// engine at the gates of one device, for programs that loop for ever; here tasks run once on several nodes, and what
// decides is core/partition (plan, choice, room, usage), over messages that take their time. The heap, the clock and
// the records are the same.
//
//   a task:  fits, or its shortage is ignored ─────────────────────────────────────┐
//            else asks who has room ──▶ plans ──┬─ waits until something is freed   │
//                                               └─▶ allocates ◀────────────────────┘
//            client ──▶ here ──┬─▶ piece by piece: in ──▶ kernel ──▶ out ──────────┬─▶ client
//                              └─▶ network ──▶ in ──▶ kernel ──▶ out ──▶ network ──┘     (a split)
//            client ──▶ network ──▶ in ──▶ kernel ──▶ out ──▶ network ──▶ client         (migrated as a whole)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "core/partition/choice.h"
#include "core/partition/plan.h"
#include "core/partition/room.h"
#include "core/partition/usage.h"
#include "sim/event_heap.h"
#include "sim/fair_link.h"
#include "sim/host_clock.h"
#include "sim/network_model.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::sim {

class MigrationSimulation {
 public:
  /// The scenario must have been checked (scenario_file.h), have a `migration`, and outlive the simulation.
  MigrationSimulation(const Scenario& scenario, const Run& run, std::uint64_t seed);

  void RunUntil(Duration at);
  [[nodiscard]] RunRecord Take();

 private:
  enum class Channel : std::uint8_t { kClientUp, kClientDown, kIn, kOut, kNetwork };
  static constexpr std::size_t kChannels = 5;
  /// Where a part of a task is: the part here, or the one there.
  enum class Phase : std::uint8_t {
    kNone,
    kArriving,
    kSending,
    kIn,
    kKernel,
    kOut,
    kSendingBack,
    kDone,
    kReturning,
    kHolding
  };
  struct Part {
    Phase phase = Phase::kNone;
    Instant began{};  // the phase
    std::uint32_t piece = 0;
    std::int64_t network_ns = 0, input_ns = 0, kernel_ns = 0, output_ns = 0;
  };
  struct Task {
    std::string name;
    std::uint32_t node = 0;
    Instant start{};
    bool managed = true;
    Duration hold{};
    std::uint64_t size = 0;
    double weight = 1;  // of its client's flows
    core::AffineNeed need;
    core::TaskView view;
    core::Plan plan;
    Part here, there;
    std::uint32_t peer = 0;  // of a plan that leaves
    Instant waits_since{};
    bool waits = false, done = false;
    TaskRecord record;
  };
  struct Node {
    Node(const MigrationNode& from, const core::ChoiceTimes& times);
    const MigrationNode* spec;
    core::DeviceUsage usage;
    core::RoomKeeper keeper;
    core::NodeChoice choice;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> asking;  // question, task
    HostClock clock;                                              // what its node choice and its offers go by
    Instant kernels_until{};
    Instant tick_at = Instant::max();  // by that clock
  };
  struct Message {
    enum class Kind : std::uint8_t { kAsk, kOffer, kTake, kTaken, kRefused, kDrop };
    Kind kind = Kind::kAsk;
    std::uint32_t from = 0, to = 0;
    std::uint64_t number = 0;
    Bytes size{};
    std::uint64_t threads = 0;
  };
  struct Flowing {
    FairLink link;
    std::uint32_t stamp = 0;
  };

  // Deciding
  void Begin(std::uint32_t task);
  void Ask(std::uint32_t task);
  void Carry(std::uint32_t node, const std::vector<core::ChoiceStep>& steps);
  void Send(const Message& message);
  void Receive(const Message& message);
  void Tick(std::uint32_t node);
  [[nodiscard]] Instant ClockOf(const Node& node) const { return node.clock.Read(now_); }
  void Decide(std::uint32_t task, std::uint64_t number, NodeId chosen);
  void Wait(std::uint32_t task);
  void Freed();
  [[nodiscard]] core::DeviceView ViewOf(std::uint32_t node, Bytes room, const Task& task);
  // Running
  void Start(std::uint32_t task);
  void EnterPhase(std::uint32_t task, bool there, Phase phase);
  void LeavePhase(std::uint32_t task, bool there);
  void PartDone(std::uint32_t task);
  void End(std::uint32_t task);
  [[nodiscard]] kernel::PartRange RangeOf(const Task& task, bool there) const;
  void Allocate(std::uint32_t node, std::uint32_t task, Bytes size);
  void AllocateHere(std::uint32_t task);
  void Free(std::uint32_t node, std::uint32_t task);
  void Memory(std::uint32_t node);
  // Channels
  Flowing& Of(Channel channel, std::uint32_t node) { return channels_[static_cast<std::size_t>(channel)][node]; }
  void Flow(Channel channel, std::uint32_t node, std::uint32_t task, bool there, double amount);
  void Arm(Channel channel, std::uint32_t node);
  void Drain(Channel channel, std::uint32_t node);
  void Note(std::uint64_t what);

  const MigrationWorld& world_;
  const MigrationRun run_;
  const Scenario& scenario_;
  const double network_bytes_per_s_;
  RunRecord out_;
  Instant now_{};
  EventHeap heap_;
  NetworkModel network_;
  std::vector<Node> nodes_;
  std::vector<Task> tasks_;
  std::vector<std::vector<Flowing>> channels_;  // by channel and node; the network's by the sending node
  std::vector<Message> messages_;
};

}  // namespace weir::sim
