// SPDX-License-Identifier: Apache-2.0
// One run of a migration scenario in virtual time. This is a simulation of its own. simulation.h plays a node's engine
// at the gates of one device, for programs that loop forever. Here each task runs once, on one node or two, and
// core/partition (plan, choice, room, usage) makes the decisions, with messages that take time. The heap, the virtual
// clock and the records are those of simulation.h.
//
//   a task:  fits, or its shortage is ignored ────────────────────────────────────────────────┐
//            else asks other nodes for room ──▶ plans ──┬─▶ waits until memory is freed       │
//                                                       └─▶ allocates ◀───────────────────────┘
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

  /// Continues until `at` of virtual time since the start, events at `at` included.
  void RunUntil(Duration at);
  [[nodiscard]] RunRecord Take();

 private:
  /// What flows share on a node: both directions of its clients' interface, both copy engines, and sending to others.
  enum class Channel : std::uint8_t { kClientUp, kClientDown, kIn, kOut, kNetwork };
  static constexpr std::size_t kChannels = 5;
  /// How far a part of a task has come.
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
    Instant began{};          // of the phase
    std::uint32_t piece = 0;  // of the part here, which runs piece by piece
    std::int64_t network_ns = 0, input_ns = 0, kernel_ns = 0, output_ns = 0;
  };
  struct Task {
    std::string name;
    std::uint32_t node = 0;
    Instant start{};
    bool managed = true;
    Duration hold{};
    std::uint64_t size = 0;
    double weight = 1;  // of the client's flows
    core::AffineNeed need;
    core::TaskView view;
    core::Plan plan;
    Part here, there;        // on the task's node, and on the peer
    std::uint32_t peer = 0;  // the node that runs `there`, if the plan has such a part
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
    std::vector<std::pair<std::uint64_t, std::uint32_t>> asking;  // number of the question, task
    HostClock clock;                                              // gives the times of `choice` and `keeper`
    Instant kernels_until{};                                      // when all kernels launched so far will have ended
    Instant tick_at = Instant::max();                             // the next deadline that is in the heap, by `clock`
  };
  struct Message {
    enum class Kind : std::uint8_t { kAsk, kOffer, kTake, kTaken, kRefused, kDrop };
    Kind kind = Kind::kAsk;
    std::uint32_t from = 0, to = 0;
    std::uint64_t number = 0;   // of the question
    Bytes size{};               // kAsk: the memory needed; kOffer: the memory that is free
    std::uint64_t threads = 0;  // kOffer: those of the kernels that the device has not finished
  };
  struct Flowing {
    FairLink link;
    std::uint32_t stamp = 0;  // see Event::stamp
  };

  // Deciding
  void Begin(std::uint32_t task);
  /// Asks the other nodes for room.
  void Ask(std::uint32_t task);
  /// Carries out what the node's choice asks for.
  void Carry(std::uint32_t node, const std::vector<core::ChoiceStep>& steps);
  void Send(const Message& message);
  void Receive(const Message& message);
  /// Lets the node's choice check its deadlines, and pushes an event for the next one.
  void Tick(std::uint32_t node);
  [[nodiscard]] Instant ClockOf(const Node& node) const { return node.clock.Read(now_); }
  /// Makes the task's plan and allocates its memory. `chosen`: the answer to question `number`; none: no node.
  void Decide(std::uint32_t task, std::uint64_t number, NodeId chosen);
  void Wait(std::uint32_t task);
  void Freed();
  /// The node's device as a plan sees it.
  [[nodiscard]] core::DeviceView ViewOf(std::uint32_t node, Bytes room, const Task& task);
  // Running. `there`: the part on the peer, else the one on the task's node.
  void Start(std::uint32_t task);
  void EnterPhase(std::uint32_t task, bool there, Phase phase);
  /// A phase has ended: records its time and enters the next one.
  void LeavePhase(std::uint32_t task, bool there);
  void PartDone(std::uint32_t task);
  void End(std::uint32_t task);
  /// The groups of the part there, or of the present piece of the part here.
  [[nodiscard]] kernel::PartRange RangeOf(const Task& task, bool there) const;
  void Allocate(std::uint32_t node, std::uint32_t task, Bytes size);
  /// Allocates the memory of the largest piece.
  void AllocateHere(std::uint32_t task);
  void Free(std::uint32_t node, std::uint32_t task);
  void Memory(std::uint32_t node);
  // Channels
  Flowing& Of(Channel channel, std::uint32_t node) { return channels_[static_cast<std::size_t>(channel)][node]; }
  /// Adds a flow.
  void Flow(Channel channel, std::uint32_t node, std::uint32_t task, bool there, double amount);
  /// Pushes an event for the end of the channel's next flow. Called after every change of the channel.
  void Arm(Channel channel, std::uint32_t node);
  /// Ends the flows that are done.
  void Drain(Channel channel, std::uint32_t node);
  /// Counts an action, and adds it to the digest.
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
  std::vector<std::vector<Flowing>> channels_;  // [channel][node]; of kNetwork, the sending node
  std::vector<Message> messages_;               // all that were sent; events refer to them by index
};

}  // namespace weir::sim
