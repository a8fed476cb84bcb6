// SPDX-License-Identifier: Apache-2.0
// One run of a scenario in virtual time: the product's own engine on modelled gates, devices and programs. Each process
// of a tenant is a loop:
//
//   draws ──▶ [synchronises ──▶ is delayed] ──▶ [waits at the gate] ──▶ queues its batches ──▶ presents ──▶ draws …
//             └── where a pace is in force ─┘   └─ mode, allowance ─┘   └─ blocks while full
//
// The modelled agent does what gate/agent.cc and shim/common/process_shim.cc do: it reserves on entry, settles
// afterwards, paces frames with the shims' own pacer, and fails open. The modelled daemon does what daemon/node.cc
// does: it polls the gates when the engine asked for it or a doorbell rings.
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

/// Bugs that tests of the checkers plant between the engine and the modelled node. Empty in all other runs.
struct Tamper {
  engine::PolicyMaker policy{};                              // makes the engine's policies instead of the table's
  std::function<void(Instant, engine::Actions&)> actions{};  // changes the engine's actions before they are applied
  bool present_first = false;  // agents never wait for a frame's work before a present that blocks
};

struct RunOptions {
  std::uint64_t seed = 1;
  bool keep_frames = true;  // in the record, one by one
  bool check = true;        // for progress and caps, during the run
  Tamper tamper{};
};

/// One run of a scenario with devices and tenants. The scenario must have been checked (scenario_file.h); it and the
/// run must outlive the simulation.
class Simulation {
 public:
  Simulation(const Scenario& scenario, const Run& run, const RunOptions& options);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Continues until `at` of virtual time since the start, events at `at` included.
  void RunUntil(Duration at);
  /// Handled so far.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// The record of the run so far. Moves the tenants' records out: to be called once, at the end.
  [[nodiscard]] RunRecord Take();

 private:
  enum class State : std::uint8_t {
    kAbsent,
    kDelayed,  // before its frame: a late frame start
    kDrawing,
    kFetching,       // waits for its memory
    kSynchronising,  // waits for queued work, before the delay
    kPaced,          // delayed
    kWaiting,        // at its gate
    kQueueing,       // sends its batches, and blocks while the driver's queue is full
    kFinishing,      // waits for the frame's work, before the present
    kPresenting
  };
  /// One process of a tenant. The fields that a poll reads come first, within one cache line. The same holds for Gate.
  struct Loop {
    std::uint32_t gate = 0;
    std::uint32_t stamp = 0;  // see Event::stamp
    ProcessId process;        // none: not attached
    State state = State::kAbsent;
    bool flushed = false;
    bool entered = false;     // has passed its gate as an attached process, and is not settled
    bool wants = false;       // waits, queues, or has work on the device
    int under_way = 0;        // batches in the driver's queue or on the device
    std::uint32_t queue = 0;  // its client and queue on the device, counted from 0 on each node
    Prng prng{0};
    core::FramePacer pacer;
    // Of this frame. `begin` is the end of the previous frame; `started` is the same, or the end of the delay of a late
    // frame start. Then its present was called, its synchronisation ended, and its work passed the gate (`submitted`).
    // `resumed` is the end of a delay, or the beginning of the wait at the gate.
    Instant started;
    Instant begin, called, submitted, synchronised, resumed;
    Instant starved_from;  // the beginning of its wait, or the last report of the wait as a violation
    Instant scene_began;
    const Scene* scene_now = nullptr;  // until `scene_ends`
    Instant scene_ends;
    std::size_t scene = 0;
    std::uint64_t frame = 0;                 // frames drawn so far
    Duration cost{}, to_queue{}, present{};  // of this frame: device time, the part not sent yet, CPU time of present
    Duration finished{}, reported{};         // device time since the start: finished, and of that metered
    Duration predicted{}, reserved{};        // the agent's: expected device time of a frame, and its reservation
    int unknown = 0;                         // the agent's: frames whose device time is not known yet
    Duration kept{};                         // what they are charged
    Duration interval{};                     // the pace of this frame; zero: none
    Duration paced{}, waited{}, foretold{};  // of this frame: delay, wait at the gate, predicted time of the present
    // Of a compute task: the work still to be launched, its whole cost, its waits so far.
    Duration task_left{}, task_cost{}, task_waited{};
    Instant task_began, release;  // its first launch; the earliest start of the next task, where there is a period
    // Elastic memory
    Instant fetch_from;              // the beginning of its wait for memory
    std::uint32_t pins = 0;          // its frames in flight that use slots
    bool queues_for_memory = false;  // it waits for memory
    bool passed = false;             // the buffers that do not fit have been copied for this frame
    bool pinned = false;             // this frame is counted in `pins`
    // Of presents that block
    core::PresentWatch watch;
    int unshown = 0;       // frames that are queued and not yet shown
    Instant shown;         // when the last of the frames finished by the device is shown
    bool settled = false;  // this frame's work has ended and is charged; its present has not returned
    Instant settled_at;    // the end of the last frame in the agent's records
    Instant presented;     // the call of the driver's present
  };
  /// A tenant's vGPU: its gate as agents and daemon see it, and the tenant's record.
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
    bool resting = false;    // its loops ring at entry, and polls do not sample it
    bool to_sample = false;  // it is in Node::sampled
    const Tenant* tenant = nullptr;
    engine::VgpuSettings settings;
    bool here = false;                  // its program is between start and end
    bool uses_memory = false;           // in at least one scene
    Duration own_interval{};            // between its frames, by its own limit; zero: none
    std::vector<core::FrameDone> done;  // frame records that the daemon has not drained yet
    TenantRecord record;
    int wanting = 0;         // how many of its loops want the device
    Instant wants_since{};   // where `wanting` is above 0
    Holding memory;          // where memory is fixed or switched
    ElasticHolding elastic;  // where it is elastic
    std::uint32_t copy_stamp = 0;
    Instant touched{};              // when a frame last used its memory
    Instant sampled{};              // the end of the time that `elsewhere` counts
    Duration steal{}, elsewhere{};  // totals of its threads: CPU time lost to others; all time, steal included
    bool sold = false;              // it has a vGPU
    core::Sale sale = core::Sale::kGuaranteed;
    bool killed = false;  // its first process, by a fault that is not mended yet
  };
  struct Node {
    EventHeap heap;                                // events of this node alone
    std::uint64_t digest = 0xCBF29CE484222325ULL;  // of all actions of its engine; begins with FNV-1a's offset basis
    std::uint64_t next_process = 1;
    std::unique_ptr<engine::NodeEngine> engine;  // none while the daemon is dead
    engine::Actions actions;
    core::DeviceModel device;
    MemoryModel memory;
    ElasticMemory elastic;
    std::unique_ptr<SwitchedMemory> switched;
    RecentPart copying;  // the part of the time in which the link copied
    std::vector<std::uint32_t> gates;
    std::vector<std::uint32_t> sampled;    // the gates that the next poll samples, in the order of `gates`
    std::vector<std::uint32_t> customers;  // gates without a vGPU, in the order in which they are served
    std::string policy;
    core::PolicyParams params;
    core::OversellMode oversell = core::OversellMode::kOff;
    core::PolicyParams oversell_params;
    Instant look_at = core::kNever;  // the next poll
    Instant looked{};                // the last poll
    std::uint32_t look_stamp = 0;
    std::uint32_t queues = 0;                            // number of loops so far, and so of queues on the device
    Instant device_event = core::DeviceModel::kNoEvent;  // the one that is in the heap, or was handled last
    bool housekeeping = false;                           // a kHousekeep event is in the heap
    bool rung = false;                                   // by RingNow, since the last poll
    bool asleep = true;  // at the last poll no policy needed another one: agents ring at entry
    bool up = true;      // the daemon is alive
    double steal = 0;    // fraction of the CPU time that programs outside of the scenario take
    // Work conservation: the device has no work although a loop waits at its gate.
    std::uint32_t batches = 0;  // on the device, or in its queues
    std::uint32_t waiting = 0;  // loops that wait at their gates
    Instant idle_since = core::kNever;
    std::vector<std::int64_t> longest_idle_ns_by_s;  // see RunRecord
    explicit Node(const Device& modelled)
        : device(modelled.model),
          memory(modelled.memory, modelled.link_bytes_per_s),
          elastic(modelled.link_bytes_per_s) {}
  };

  /// Pushes the events that are known from the beginning.
  void Schedule();
  /// Handles the node's events before `until_ns`.
  void RunNode(std::uint32_t node, std::int64_t until_ns);
  void Handle(EventKind kind, std::uint32_t subject, std::uint32_t stamp);
  /// Handles events that do not come from a node: changes, faults, checks.
  void HandleCommon(const Event& event);
  /// Adds an event of this node.
  void Push(std::uint32_t node, Instant at, EventKind kind, std::uint32_t subject, std::uint32_t stamp = 0);
  // Programs
  void Arrive(std::uint32_t gate);
  void Sell(std::uint32_t node);
  void LeaveShop(std::uint32_t gate);
  /// Records what the vGPU is sold as, if that has changed.
  void NoteTerms(Gate& gate);
  void SellBy(std::uint32_t node, core::OversellMode mode, const core::PolicyParams& params);
  void CheckCapsNow(std::uint32_t node);
  void Depart(std::uint32_t gate);
  void StartLoop(std::uint32_t loop);
  void StopLoop(std::uint32_t loop);
  void DelayStart(std::uint32_t loop);
  void Start(std::uint32_t loop);
  void BeginFrame(std::uint32_t loop);
  /// The scene that is in force now.
  const Scene& SceneOf(Loop& loop);
  Duration DrawFrame(Loop& loop);
  void Launch(std::uint32_t loop);
  /// The frame is drawn: attaches if need be, fetches memory, then synchronises or enters the gate.
  void CallPresent(std::uint32_t loop);
  void Synchronise(std::uint32_t loop);
  /// Delays the submission as the pacer asks, then enters the gate.
  void KeepPace(std::uint32_t loop);
  void EnterGate(std::uint32_t loop);
  void PassGate(std::uint32_t loop);
  void SetState(Loop& loop, State state);
  /// Begins or ends an idle stretch, after `batches` or `waiting` has changed.
  void NoteIdle(Node& node);
  void EndIdle(Node& node);
  void LeaveGate(Loop& loop);
  void Queue(std::uint32_t loop);
  void Send(std::uint32_t loop);
  [[nodiscard]] bool FinishesFirst(const Loop& loop);
  /// Whether the driver's present would not block now.
  [[nodiscard]] bool MayPresent(const Loop& loop);
  void Present(std::uint32_t loop);
  void Settle(std::uint32_t loop);
  Duration Keep(Loop& loop, Duration gpu);
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
  /// The executor gets the daemon's memory order.
  void TakeOrder(std::uint32_t gate, const engine::MemoryGrant& grant);
  void AdvanceMemory(std::uint32_t gate);
  /// Adds what the executor reports to the daemon at a poll.
  void SampleMemory(Gate& gate, std::uint32_t threads);
  void NoteMemoryWait(Loop& loop);
  /// Fraction of the programs' CPU time that they do not get.
  [[nodiscard]] double StealNow(Node& node, std::uint32_t index) {
    return run_.memory == MemoryMode::kFixed ? node.steal : StealBesideCopies(node, index);
  }
  [[nodiscard]] double StealBesideCopies(Node& node, std::uint32_t index);
  // Nodes
  /// The daemon starts, at the beginning of the run or after a crash.
  void StartNode(std::uint32_t node);
  void PlayDevice(std::uint32_t node);
  /// Keeps the device's next event in the node's heap. Called after every change of the device.
  void PlanDevice(std::uint32_t node) {
    if (nodes_[node].device_event != nodes_[node].device.NextEvent()) MoveDeviceEvent(node);
  }
  void MoveDeviceEvent(std::uint32_t node);
  void BatchDone(const core::DeviceCompletion& done);
  [[nodiscard]] Duration ReservedOf(const Gate& gate) const;
  /// Fills `samples_` and `memory_samples_`.
  void Sample(std::uint32_t node);
  void SampleNext(std::uint32_t gate);
  /// Polls the node's gates.
  void Look(std::uint32_t node);
  /// Sets the time of the next poll, kLookSpacing after the last one at the earliest.
  void LookAt(std::uint32_t node, Instant when);
  /// An agent rings at entry: answered only if the daemon is asleep.
  void RingBell(std::uint32_t node);
  void RingNow(std::uint32_t node);
  /// The daemon drains the frame records of its gates.
  void Housekeep(std::uint32_t node);
  void ReadAccount(std::uint32_t node);
  [[nodiscard]] Duration Metered(Loop& loop);
  /// Gives the event to the node's engine and carries out its actions. A refusal is a violation.
  void Step(std::uint32_t node, const engine::Event& event);
  /// Carries out the engine's actions.
  void Carry(std::uint32_t node);
  void WakeGate(std::uint32_t gate);
  void Attach(std::uint32_t loop);
  void Apply(const ScenarioChange& change);
  void SetTenant(Gate& gate, engine::VgpuSettings settings);
  void Break(std::uint32_t fault);
  void Mend(std::uint32_t fault);
  [[nodiscard]] bool StillBroken(const Fault& like) const;
  /// The steal of a node by its device's description and by the faults that are not mended.
  [[nodiscard]] double StealOf(std::uint32_t node) const;
  // The record
  /// Called after every change that may change whether the loop wants the device.
  void NoteWanting(std::uint32_t index) {
    Loop& loop = loops_[index];
    // A program that only waits for a vertical blank does not want the device.
    const bool wants = loop.under_way > 0 || loop.state == State::kWaiting ||
                       (loop.state == State::kQueueing && loop.to_queue > Duration{0}) ||
                       loop.state == State::kPresenting || loop.state == State::kSynchronising;
    if (wants != loop.wants) ChangeWanting(loop);
  }
  void ChangeWanting(Loop& loop);
  void CountWanting(Gate& gate);
  /// Records the slots that the tenant has on the device now, if that has changed.
  void NoteMemory(Gate& gate);
  void NoteCopied(Gate& gate, std::uint32_t slots);
  /// An agent takes this much from its gate's allowance; negative: gives it back.
  static void Charge(Gate& gate, Duration taken) {
    gate.allowance_ns -= taken.count();
    gate.record.charged_ns += taken.count();
  }
  void TakeBooks(std::uint32_t node);
  void Check();
  static void Mix(std::uint64_t& digest, std::uint64_t value) { digest = (digest ^ value) * 0x100000001B3ULL; }
  /// The whole second of the run that `now_` lies in.
  [[nodiscard]] std::size_t Second() const { return static_cast<std::size_t>((now_ - start_) / seconds(1)); }
  /// The tag of a device command: its loop, and whether it is the last batch of a frame.
  static std::uint64_t TagOf(std::uint32_t loop, bool last_of_frame) {
    return std::uint64_t{loop} * 2 + (last_of_frame ? 1 : 0);
  }
  static bool LastOfFrame(const core::DeviceCommand& command) { return command.tag % 2 == 1; }
  static std::uint32_t LoopOf(const core::DeviceCommand& command) {
    return static_cast<std::uint32_t>(command.tag / 2);
  }
  /// Time so far in which a device was not idle.
  static std::int64_t NsOfDeviceUse(const core::DeviceModel& device, Instant now) {
    return (device.Busy(core::EngineKind::kCompute, now) + device.Switching(core::EngineKind::kCompute)).count();
  }
  /// The largest batch. Tasks' launches and frames of the emulated GL driver are not divided.
  static Duration BatchOf(const Tenant& tenant) {
    return tenant.compute || tenant.frames_ahead > 0 ? Duration::max() : tenant.batch;
  }
  /// Another batch is sent while fewer than this many are in flight.
  static int QueueOf(const Tenant& tenant) { return tenant.frames_ahead > 0 ? tenant.frames_ahead + 1 : tenant.queue; }
  static std::uint32_t LoopsOf(const Gate& gate) { return gate.loops; }
  Gate& GateOf(const Loop& loop) { return gates_[loop.gate]; }
  Node& NodeOf(const Loop& loop) { return nodes_[gates_[loop.gate].node]; }

  const Scenario& scenario_;
  const Run& run_;
  const RunOptions options_;
  EventHeap common_;                              // changes, faults, checks
  Instant start_ = InstantFromNs(1'000'000'000);  // of the run, in virtual time: not zero, which fields use for "never"
  Instant now_ = start_;
  std::int64_t played_ns_ = NsOf(start_);  // all events before this time have been handled
  std::vector<Node> nodes_;
  std::vector<std::int64_t> next_ns_;  // of each node: none of its events is earlier
  std::vector<Gate> gates_;
  std::vector<Loop> loops_;
  std::vector<engine::GateSample> samples_;
  std::vector<engine::MemorySample> memory_samples_;
  std::vector<std::uint32_t> woken_;
  std::vector<core::DeviceCompletion> completed_;
  std::vector<bool> broken_;  // [fault]: it has begun and is not mended
  std::uint64_t events_ = 0;
  std::uint64_t actions_ = 0;
  std::uint64_t looks_ = 0;
  std::vector<SellingMode> selling_;
  std::vector<SaleRefused> refused_;
  std::vector<std::string> violations_;
};

}  // namespace weir::sim
