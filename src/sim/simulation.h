// SPDX-License-Identifier: Apache-2.0
// One run of a scenario in virtual time: the product's own engine on modelled gates, devices and programs.
//
//   a loop:  draws ──▶ [synchronises ──▶ is delayed] ──▶ [waits at the gate] ──▶ queues its batches ──▶ presents ──▶
//   draws
//                      └── where a pace is in force ┘    └── mode, allowance ┘    └ blocks while full ┘
//
// The agent's part is that of gate/agent.cc and shim/common/process_shim.cc: reserve on entry, settle after, frames on
// the shims' own pacer, fail open. The daemon's is that of daemon/node.cc: looks when the engine asked for it or a bell
// rings.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "core/device/device_model.h"
#include "core/schedule/frame_pacer.h"
#include "core/schedule/present_watch.h"
#include "engine/node_engine.h"
#include "sim/elastic_memory.h"
#include "sim/event_heap.h"
#include "sim/memory_model.h"
#include "sim/record.h"
#include "sim/scenario.h"
#include "sim/switched_memory.h"

namespace weir::sim {

/// For tests of the checkers: what a bug would do, between the engine and the world. Empty in any other run.
struct Tamper {
  engine::PolicyMaker policy{};
  std::function<void(Instant, engine::Actions&)> actions{};
  bool present_first = false;  // agents never wait for a frame's work before a present that blocks
};

struct RunOptions {
  std::uint64_t seed = 1;
  bool keep_frames = true;
  bool check = true;
  Tamper tamper{};
};

class Simulation {
 public:
  /// The scenario must have been checked (scenario_file.h) and outlive the simulation.
  Simulation(const Scenario& scenario, const Run& run, const RunOptions& options);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Goes on until `at` of virtual time since the start.
  void RunUntil(Duration at);
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// What has come of it so far; at the end of the span, of all of it.
  [[nodiscard]] RunRecord Take();

 private:
  enum class State : std::uint8_t {
    kAbsent,
    kDelayed,  // before its frame: a late frame start
    kDrawing,
    kFetching,  // waits for its memory
    kSynchronising,
    kPaced,
    kWaiting,
    kQueueing,
    kFinishing,  // waits for its work before the present
    kPresenting
  };
  /// What a look needs comes first, in one cache line; so in Gate.
  struct Loop {
    std::uint32_t gate = 0;
    std::uint32_t stamp = 0;
    ProcessId process;  // none: not attached
    State state = State::kAbsent;
    bool flushed = false;
    bool entered = false;
    bool wants = false;       // waits, queues, or has work on the device
    int under_way = 0;        // batches
    std::uint32_t queue = 0;  // its client and queue on the device, counted from 0 on each node
    Prng prng{0};
    core::FramePacer pacer;
    Instant started;  // its frame: `begin`, or the end of the delay of a late frame start
    Instant begin, called, submitted, synchronised, resumed;
    Instant starved_from;  // it has waited since then, as far as was said
    Instant scene_began;
    const Scene* scene_now = nullptr;  // until `scene_ends`
    Instant scene_ends;
    std::size_t scene = 0;
    std::uint64_t frame = 0;
    Duration cost{}, to_queue{}, present{};  // of this frame
    Duration finished{}, reported{};         // on the device, since the start
    Duration predicted{}, reserved{};        // as the agent reckons
    Duration interval{};                     // the pace of this frame; zero: none
    Duration paced{}, waited{}, foretold{};
    // Of a compute task: what is still to be launched, its cost and waits so far, its beginning.
    Duration task_left{}, task_cost{}, task_waited{};
    Instant task_began, release;
    // Elastic memory
    Instant fetch_from;              // it waits since then
    std::uint32_t pins = 0;          // its frames that use slots
    bool queues_for_memory = false;  // it waits
    bool passed = false;             // what doesn't fit has been copied for this frame
    bool pinned = false;             // this frame uses slots
    // Of presents that block
    core::PresentWatch watch;
    int unshown = 0;       // frames that are queued and not shown
    Instant shown;         // when the last frame is shown that the device has finished
    bool settled = false;  // this frame's work has ended and is charged; its present has not returned
    Instant settled_at;    // the end of the last frame in the agent's records
    Instant presented;     // the call of the driver's present
  };
  struct Gate {
    VgpuId id;
    std::int64_t allowance_ns = 0;
    std::uint32_t first_loop = 0;
    std::uint32_t loops = 0;
    std::uint32_t node = 0;
    proto::GateMode mode = proto::GateMode::kOpen;
    proto::FrameSync sync = proto::FrameSync::kAuto;
    proto::FrameStart start = proto::FrameStart::kEarly;
    Duration interval{};
    bool ring_at_end = false;
    bool resting = false;    // its loops ring at entry, and looks do not sample it
    bool to_sample = false;  // it is in Node::sampled
    const Tenant* tenant = nullptr;
    engine::VgpuSettings settings;
    bool here = false;
    bool uses_memory = false;  // in some scene
    Duration own_interval{};   // between its frames, by its own limit; zero: none
    std::vector<core::FrameDone> done;
    TenantRecord record;
    int wanting = 0;        // of its loops
    Instant wants_since{};  // where one does
    Holding memory;
    ElasticHolding elastic;
    std::uint32_t copy_stamp = 0;
    Instant touched{};  // when a frame last used its memory
    Instant sampled{};  // its threads' times, up to then
    Duration steal{}, elsewhere{};
    bool sold = false;  // it has a vGPU
    core::Sale sale = core::Sale::kGuaranteed;
    bool killed = false;  // its first process, by a fault that isn't mended yet
  };
  struct Node {
    EventHeap heap;  // what concerns this node alone
    std::uint64_t digest = 0xCBF29CE484222325ULL;
    std::uint64_t next_process = 1;
    std::unique_ptr<engine::NodeEngine> engine;
    engine::Actions actions;
    core::DeviceModel device;
    MemoryModel memory;
    ElasticMemory elastic;
    std::unique_ptr<SwitchedMemory> switched;
    RecentPart copying;
    std::vector<std::uint32_t> gates;
    std::vector<std::uint32_t> sampled;    // the gates that the next look samples, in the order of `gates`
    std::vector<std::uint32_t> customers;  // gates that are not sold yet, in the order in which they come
    std::string policy;
    core::PolicyParams params;
    core::OversellMode oversell = core::OversellMode::kOff;
    core::PolicyParams oversell_params;
    Instant look_at = core::kNever;
    Instant looked{};
    std::uint32_t look_stamp = 0;
    std::uint32_t queues = 0;                            // of all of its loops
    Instant device_event = core::DeviceModel::kNoEvent;  // the one that is in the heap, or was played last
    bool housekeeping = false;
    bool rung = false;   // since the last look, by an agent that does not wait for the next one
    bool asleep = true;  // at the last look no policy needed another one: agents ring at entry
    bool up = true;
    double steal = 0;
    // Work conservation: the device has no work although a loop waits at its gate.
    std::uint32_t batches = 0;  // on the device, or in its queues
    std::uint32_t waiting = 0;  // loops
    Instant idle_since = core::kNever;
    std::vector<std::int64_t> longest_idle_ns_by_s;
    explicit Node(const Device& modelled)
        : device(modelled.model),
          memory(modelled.memory, modelled.link_bytes_per_s),
          elastic(modelled.link_bytes_per_s) {}
  };

  void Schedule();
  void RunNode(std::uint32_t node, std::int64_t until_ns);
  void Handle(EventKind kind, std::uint32_t subject, std::uint32_t stamp);
  void HandleCommon(const Event& event);
  /// Of a node's, and of what is there.
  void Push(std::uint32_t node, Instant at, EventKind kind, std::uint32_t subject, std::uint32_t stamp = 0);
  // Programs
  void Arrive(std::uint32_t gate);
  void Sell(std::uint32_t node);
  void LeaveShop(std::uint32_t gate);
  void NoteTerms(Gate& gate);
  void SellBy(std::uint32_t node, core::OversellMode mode, const core::PolicyParams& params);
  void CheckCapsNow(std::uint32_t node);
  void Depart(std::uint32_t gate);
  void StartLoop(std::uint32_t loop);
  void StopLoop(std::uint32_t loop);
  void DelayStart(std::uint32_t loop);
  void Start(std::uint32_t loop);
  void BeginFrame(std::uint32_t loop);
  const Scene& SceneOf(Loop& loop);
  Duration DrawFrame(Loop& loop);
  void Launch(std::uint32_t loop);
  void CallPresent(std::uint32_t loop);
  void Synchronise(std::uint32_t loop);
  void KeepPace(std::uint32_t loop);
  void EnterGate(std::uint32_t loop);
  void PassGate(std::uint32_t loop);
  void SetState(Loop& loop, State state);
  void NoteIdle(Node& node);
  void EndIdle(Node& node);
  void LeaveGate(Loop& loop);
  void Queue(std::uint32_t loop);
  void Send(std::uint32_t loop);
  [[nodiscard]] bool FinishesFirst(const Loop& loop);
  [[nodiscard]] bool MayPresent(const Loop& loop);
  void Present(std::uint32_t loop);
  void Settle(std::uint32_t loop);
  void EndFrame(std::uint32_t loop);
  void ShowAtBlank(std::uint32_t loop);
  void Shown(std::uint32_t loop);
  // Memory
  [[nodiscard]] bool Elastic() const { return run_.memory == MemoryMode::kElastic; }
  void StartMemory(std::uint32_t node);
  void UseScene(Loop& loop);
  bool Fetch(std::uint32_t loop);
  bool MemoryIsGone(std::uint32_t loop);
  void Pin(Loop& loop);
  void Unpin(Loop& loop, std::uint32_t pins);
  void LeaveMemory(Loop& loop);
  void TakeOrder(std::uint32_t gate, const engine::MemoryGrant& grant);
  void AdvanceMemory(std::uint32_t gate);
  void SampleMemory(Gate& gate, std::uint32_t threads);
  void NoteMemoryWait(Loop& loop);
  [[nodiscard]] double StealNow(Node& node, std::uint32_t index) {
    return run_.memory == MemoryMode::kFixed ? node.steal : StealBesideCopies(node, index);
  }
  [[nodiscard]] double StealBesideCopies(Node& node, std::uint32_t index);
  // Nodes
  void StartNode(std::uint32_t node);
  void PlayDevice(std::uint32_t node);
  /// Keeps the device's next event in the node's heap.
  void PlanDevice(std::uint32_t node) {
    if (nodes_[node].device_event != nodes_[node].device.NextEvent()) MoveDeviceEvent(node);
  }
  void MoveDeviceEvent(std::uint32_t node);
  void BatchDone(const core::DeviceCompletion& done);
  [[nodiscard]] Duration ReservedOf(const Gate& gate) const;
  void Sample(std::uint32_t node);
  void SampleNext(std::uint32_t gate);
  void Look(std::uint32_t node);
  void LookAt(std::uint32_t node, Instant when);
  void RingBell(std::uint32_t node);
  void RingNow(std::uint32_t node);
  void Housekeep(std::uint32_t node);
  void ReadAccount(std::uint32_t node);
  [[nodiscard]] Duration Metered(Loop& loop);
  void Step(std::uint32_t node, const engine::Event& event);
  void Carry(std::uint32_t node);
  void WakeGate(std::uint32_t gate);
  void Attach(std::uint32_t loop);
  void Apply(const Change& change);
  void SetTenant(Gate& gate, engine::VgpuSettings settings);
  void Break(std::uint32_t fault);
  void Mend(std::uint32_t fault);
  [[nodiscard]] bool StillBroken(const Fault& like) const;
  [[nodiscard]] double StealOf(std::uint32_t node) const;
  // The record
  void NoteWanting(std::uint32_t index) {
    Loop& loop = loops_[index];
    // A program that waits only for a vertical blank wants nothing.
    const bool wants = loop.under_way > 0 || loop.state == State::kWaiting ||
                       (loop.state == State::kQueueing && loop.to_queue > Duration{0}) ||
                       loop.state == State::kPresenting || loop.state == State::kSynchronising;
    if (wants != loop.wants) ChangeWanting(loop);
  }
  void ChangeWanting(Loop& loop);
  void CountWanting(Gate& gate);
  void NoteMemory(Gate& gate);
  void NoteCopied(Gate& gate, std::uint32_t slots);
  static void Charge(Gate& gate, Duration taken) {
    gate.allowance_ns -= taken.count();
    gate.record.charged_ns += taken.count();
  }
  void TakeBooks(std::uint32_t node);
  void Check();
  static void Mix(std::uint64_t& digest, std::uint64_t value) { digest = (digest ^ value) * 0x100000001B3ULL; }
  [[nodiscard]] std::size_t Second() const { return static_cast<std::size_t>((now_ - start_) / seconds(1)); }
  /// Of commands that a device executes.
  static std::uint64_t TagOf(std::uint32_t loop, bool last_of_frame) {
    return std::uint64_t{loop} * 2 + (last_of_frame ? 1 : 0);
  }
  static bool LastOfFrame(const core::DeviceCommand& command) { return command.tag % 2 == 1; }
  static std::uint32_t LoopOf(const core::DeviceCommand& command) {
    return static_cast<std::uint32_t>(command.tag / 2);
  }
  /// Time that a device was not idle.
  static std::int64_t NsOfDeviceUse(const core::DeviceModel& device, Instant now) {
    return (device.Busy(core::EngineKind::kCompute, now) + device.Switching(core::EngineKind::kCompute)).count();
  }
  static Duration BatchOf(const Tenant& tenant) {
    return tenant.compute || tenant.frames_ahead > 0 ? Duration::max() : tenant.batch;
  }
  /// Batches that may be under way when another is sent.
  static int QueueOf(const Tenant& tenant) { return tenant.frames_ahead > 0 ? tenant.frames_ahead + 1 : tenant.queue; }
  static std::uint32_t LoopsOf(const Gate& gate) { return gate.loops; }
  Gate& GateOf(const Loop& loop) { return gates_[loop.gate]; }
  Node& NodeOf(const Loop& loop) { return nodes_[gates_[loop.gate].node]; }

  const Scenario& scenario_;
  const Run& run_;
  const RunOptions options_;
  EventHeap common_;  // what concerns all nodes, or comes from outside
  Instant start_ = InstantFromNs(1'000'000'000);
  Instant now_ = start_;
  std::int64_t played_ns_ = NsOf(start_);  // all events before it are over
  std::vector<Node> nodes_;
  std::vector<std::int64_t> next_ns_;  // of each node: no event is earlier
  std::vector<Gate> gates_;
  std::vector<Loop> loops_;
  std::vector<engine::GateSample> samples_;
  std::vector<engine::MemorySample> memory_samples_;
  std::vector<std::uint32_t> woken_;
  std::vector<core::DeviceCompletion> completed_;
  std::vector<bool> broken_;  // by fault
  std::uint64_t events_ = 0;
  std::uint64_t actions_ = 0;
  std::uint64_t looks_ = 0;
  std::vector<SellingMode> selling_;
  std::vector<SaleRefused> refused_;
  std::vector<std::string> violations_;
};

}  // namespace weir::sim
