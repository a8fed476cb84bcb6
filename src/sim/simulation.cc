// SPDX-License-Identifier: Apache-2.0
// The course of a run, and the programs in it.
#include "sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"

namespace weir::sim {
namespace {

constexpr Duration kFirstPrediction = milliseconds(1);  // as the agent's
constexpr Duration kReservedMost = milliseconds(100);   // as an executor's
constexpr Duration kCheckEvery = milliseconds(250);
constexpr Duration kRound = milliseconds(250);  // long, so that loading a node's state into the caches pays
constexpr std::int64_t kNoEvent = std::numeric_limits<std::int64_t>::max();

bool UsesMemory(const Scene& scene) { return scene.memory.has_value(); }

core::Prices PricesOf(const core::PolicyParams& given) {
  const auto params = core::CheckOversellParams(given);
  WEIR_CHECK(params.has_value());
  return core::PricesOf(*params);
}

}  // namespace

Simulation::Simulation(const Scenario& scenario, const Run& run, const RunOptions& options)
    : scenario_(scenario), run_(run), options_(options), broken_(scenario.faults.size()) {
  Prng seeds(options.seed);
  nodes_.reserve(scenario.devices.size());
  gates_.reserve(scenario.tenants.size());
  for (const Device& device : scenario.devices) {
    nodes_.emplace_back(device);
    nodes_.back().steal = device.cpu_steal;
    nodes_.back().policy = run.policy;
    nodes_.back().params = run.params;
    nodes_.back().oversell = run.oversell;
    nodes_.back().oversell_params = run.oversell_params;
  }
  for (const Tenant& tenant : scenario.tenants) {
    const std::uint64_t seed = seeds.Next();  // one for each, so that leaving out a tenant changes no other's frames
    if (!run.only.empty() && std::ranges::find(run.only, tenant.name) == run.only.end()) continue;
    const auto other = run.settings.find(tenant.name);
    Gate& gate = gates_.emplace_back();
    gate.tenant = &tenant;
    if (tenant.own_limit_fps > 0) gate.own_interval = FromSeconds(1 / tenant.own_limit_fps);
    gate.settings = other != run.settings.end() ? other->second : tenant.settings;
    gate.node = tenant.device;
    gate.first_loop = static_cast<std::uint32_t>(loops_.size());
    gate.loops = static_cast<std::uint32_t>(tenant.processes);
    gate.id = VgpuId{gates_.size()};
    gate.record.name = tenant.name;
    if (run.memory_min) gate.settings.memory_min = *run.memory_min;
    if (run.memory_max) gate.settings.memory_max = *run.memory_max;
    gate.uses_memory = tenant.memory > Bytes{} || std::ranges::any_of(tenant.scenes, &UsesMemory);
    gate.memory.footprint = SlotsFor(tenant.memory);
    gate.elastic.command = SlotsFor(tenant.command);
    gate.elastic.dirty = tenant.dirty;
    gate.sold = !tenant.customer;
    gate.sale = tenant.sale;
    gate.record.sold_ns = tenant.customer ? -1 : 0;
    gate.record.ceiling = gate.settings.cap.Fraction();
    gate.record.promised_fps = gate.settings.fps;
    gate.record.best_effort = tenant.sale == core::Sale::kBestEffort;
    nodes_[tenant.device].gates.push_back(static_cast<std::uint32_t>(gates_.size() - 1));
    if (tenant.customer) nodes_[tenant.device].customers.push_back(static_cast<std::uint32_t>(gates_.size() - 1));
    Prng own(seed);
    for (int i = 0; i < tenant.processes; ++i) {
      Loop& loop = loops_.emplace_back();
      loop.gate = static_cast<std::uint32_t>(gates_.size() - 1);
      loop.prng = Prng(own.Next());
      loop.queue = nodes_[gate.node].queues++;
    }
  }
  next_ns_.assign(nodes_.size(), kNoEvent);
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    StartMemory(node);
    StartNode(node);
  }
  Schedule();
}

Simulation::~Simulation() = default;

void Simulation::Push(std::uint32_t node, Instant at, EventKind kind, std::uint32_t subject, std::uint32_t stamp) {
  nodes_[node].heap.Push(at, kind, subject, stamp);
  next_ns_[node] = std::min(next_ns_[node], NsOf(at));
}

void Simulation::Schedule() {
  for (std::uint32_t i = 0; i < gates_.size(); ++i) {
    const Tenant& tenant = *gates_[i].tenant;
    if (!tenant.customer) Push(gates_[i].node, start_ + tenant.start, EventKind::kArrive, i);
    if (tenant.end > Duration{0}) Push(gates_[i].node, start_ + tenant.end, EventKind::kDepart, i);
  }
  for (std::uint32_t node = 0; node < nodes_.size(); ++node)
    if (!nodes_[node].customers.empty()) Push(node, start_, EventKind::kSell, node);
  for (std::uint32_t node = 0; node < nodes_.size(); ++node)
    if (scenario_.devices[node].account > Duration{0}) Push(node, start_, EventKind::kAccount, node);
  for (std::uint32_t i = 0; i < run_.changes.size(); ++i)
    common_.Push(start_ + run_.changes[i].at, EventKind::kChange, i);
  for (std::uint32_t i = 0; i < scenario_.faults.size(); ++i) {
    common_.Push(start_ + scenario_.faults[i].at, EventKind::kFault, i);
    common_.Push(start_ + scenario_.faults[i].until, EventKind::kMend, i);
  }
  if (options_.check) common_.Push(start_ + kCheckEvery, EventKind::kCheck, 0);
}

/// Nodes are independent of each other, so each one plays a whole round before the next node does: its state stays in
/// the caches. Of events at the same time, those in `common_` are handled before those of nodes.
void Simulation::RunUntil(Duration at) {
  const std::int64_t past_ns = NsOf(start_ + at) + 1;
  while (played_ns_ < past_ns) {
    const std::int64_t common_ns = common_.empty() ? kNoEvent : common_.Next().at_ns;
    const std::int64_t until_ns = std::min({past_ns, common_ns, played_ns_ + kRound.count()});
    for (std::uint32_t node = 0; node < nodes_.size(); ++node)
      if (next_ns_[node] < until_ns) RunNode(node, until_ns);
    played_ns_ = until_ns;
    while (played_ns_ < past_ns && !common_.empty() && common_.Next().at_ns == played_ns_) {
      const Event event = common_.Pop();
      now_ = InstantFromNs(event.at_ns);
      ++events_;
      HandleCommon(event);
    }
  }
  now_ = start_ + at;
}

[[gnu::always_inline]] inline void Simulation::Handle(EventKind kind, std::uint32_t i, std::uint32_t stamp) {
  switch (kind) {
    case EventKind::kLook:
      if (stamp == nodes_[i].look_stamp) Look(i);
      return;
    case EventKind::kHousekeep: return Housekeep(i);
    case EventKind::kAccount: return ReadAccount(i);
    case EventKind::kPresent:
      if (stamp == loops_[i].stamp) CallPresent(i);
      return;
    case EventKind::kStart:
      if (stamp == loops_[i].stamp) Start(i);
      return;
    case EventKind::kPaceOver:
      if (stamp == loops_[i].stamp) KeepPace(i);
      return;
    case EventKind::kPresentOver:
      if (stamp == loops_[i].stamp) EndFrame(i);
      return;
    case EventKind::kShown: return Shown(i);
    case EventKind::kDevice: return PlayDevice(i);
    case EventKind::kCopied:
      if (stamp != gates_[i].copy_stamp) return;
      ElasticMemory::Ended(gates_[i].elastic);
      return AdvanceMemory(i);
    case EventKind::kPassed:
      if (stamp == loops_[i].stamp) CallPresent(i);
      return;
    case EventKind::kArrive: return Arrive(i);
    case EventKind::kSell: return Sell(i);
    case EventKind::kDepart: return Depart(i);
    default: return;  // events of HandleCommon, and of the other simulations
  }
}

void Simulation::RunNode(std::uint32_t index, std::int64_t until_ns) {
  EventHeap& heap = nodes_[index].heap;
  Event event;
  while (heap.PopBefore(until_ns, event)) {
    now_ = InstantFromNs(event.at_ns);
    ++events_;
    Handle(event.kind, event.subject, event.stamp);
  }
  next_ns_[index] = heap.empty() ? kNoEvent : heap.Next().at_ns;
}

RunRecord Simulation::Take() {
  RunRecord record;
  record.label = run_.label;
  record.span_ns = (now_ - start_).count();
  record.warm_up_ns = scenario_.warm_up.count();
  record.prices = PricesOf(run_.oversell_params);
  record.events = events_;
  record.actions = actions_;
  record.looks = looks_;
  record.digest = 0xCBF29CE484222325ULL;
  for (const Node& node : nodes_) Mix(record.digest, node.digest);
  record.selling = selling_;
  record.refused = refused_;
  record.violations = violations_;
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) TakeBooks(node);
  for (Gate& gate : gates_) {
    if (gate.wanting > 0) CountWanting(gate);
    for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) NoteMemoryWait(loops_[gate.first_loop + i]);
    gate.record.copied_out_slots = gate.elastic.copied_out;
    record.tenants.push_back(std::move(gate.record));
  }
  for (Node& node : nodes_) {
    record.device_busy_ns.push_back(NsOfDeviceUse(node.device, now_));
    if (node.idle_since != core::kNever) EndIdle(node);
    record.longest_idle_ns_by_s.push_back(std::move(node.longest_idle_ns_by_s));
  }
  return record;
}

void Simulation::HandleCommon(const Event& event) {
  const std::uint32_t i = event.subject;
  switch (event.kind) {
    case EventKind::kChange: return Apply(run_.changes[i]);
    case EventKind::kFault: return Break(i);
    case EventKind::kMend: return Mend(i);
    case EventKind::kCheck:
      Check();
      common_.Push(now_ + kCheckEvery, EventKind::kCheck, 0);
      return;
    default: return;
  }
}

// -- Programs --------------------------------------------------------------------------------------------------------

void Simulation::Arrive(std::uint32_t index) {
  Gate& gate = gates_[index];
  gate.here = true;
  for (std::uint32_t i = gate.killed ? 1 : 0; i < LoopsOf(gate); ++i) StartLoop(gate.first_loop + i);
}

void Simulation::Depart(std::uint32_t index) {
  Gate& gate = gates_[index];
  gate.here = false;
  for (std::uint32_t i = 0; i < LoopsOf(gate); ++i) StopLoop(gate.first_loop + i);
  if (gate.tenant->customer) LeaveShop(index);
}

void Simulation::StartLoop(std::uint32_t index) {
  Loop& loop = loops_[index];
  if (loop.state != State::kAbsent) return;
  loop.pacer = {};
  loop.watch = {};
  loop.settled_at = now_;
  loop.begin = loop.scene_began = loop.release = now_;
  loop.scene = 0;
  loop.scene_ends = {};
  loop.predicted = loop.kept = Duration{0};
  loop.unknown = 0;
  loop.reported = loop.finished;
  BeginFrame(index);
}

void Simulation::StopLoop(std::uint32_t index) {
  Loop& loop = loops_[index];
  if (loop.state == State::kAbsent) return;
  Node& node = NodeOf(loop);
  const ProcessId process = loop.process;
  if (process && node.up) Look(GateOf(loop).node);  // so that what it has spent is charged to its vGPU
  ++loop.stamp;
  LeaveMemory(loop);
  SetState(loop, State::kAbsent);
  loop.process = {};
  loop.entered = false;
  node.device.Forget(loop.queue);
  PlanDevice(GateOf(loop).node);
  const int forgotten = loop.under_way - static_cast<int>(node.device.Outstanding(loop.queue));
  loop.under_way -= forgotten;
  node.batches -= static_cast<std::uint32_t>(forgotten);
  NoteIdle(node);
  if (GateOf(loop).tenant->frames_ahead > 0) loop.unshown -= forgotten;  // a frame is one batch
  Gate& gate = GateOf(loop);
  NoteWanting(index);
  const auto loops = std::span(loops_).subspan(gate.first_loop, LoopsOf(gate));
  if (std::ranges::all_of(loops, [](const Loop& each) { return each.state == State::kAbsent; })) {
    node.memory.Release(gate.memory);
    ElasticMemory::Release(gate.elastic);
    ++gate.copy_stamp;
    NoteMemory(gate);
  }
  if (process && node.up) Step(GateOf(loop).node, engine::ProcessDetached{GateOf(loop).id, process});
}

/// Begins the next frame at once or, with a late frame start, as late as its pace allows.
void Simulation::DelayStart(std::uint32_t index) {
  Loop& loop = loops_[index];
  const Gate& gate = GateOf(loop);
  const bool late = gate.start == proto::FrameStart::kLate && loop.process && !gate.tenant->compute;
  const Instant start = late ? loop.pacer.StartAt(gate.interval) : Instant{};
  if (start <= now_) return BeginFrame(index);
  SetState(loop, State::kDelayed);
  loop.interval = gate.interval;
  loop.resumed = start;
  Push(gate.node, start, EventKind::kStart, index, ++loop.stamp);
}

void Simulation::Start(std::uint32_t index) {
  Loop& loop = loops_[index];
  if (now_ >= loop.resumed) loop.pacer.StartDelayed(loop.resumed, now_);
  BeginFrame(index);
}

void Simulation::BeginFrame(std::uint32_t index) {
  Loop& loop = loops_[index];
  loop.started = now_;
  const Tenant& tenant = *GateOf(loop).tenant;
  Duration cpu = DrawFrame(loop);
  if (const double steal = StealNow(NodeOf(loop), GateOf(loop).node); steal > 0) {
    const Duration own = cpu;
    cpu = Duration{static_cast<std::int64_t>(static_cast<double>(cpu.count()) / (1 - steal))};
    GateOf(loop).steal += cpu - own;
  }
  Instant present = now_ + cpu;
  present = std::max(present, loop.begin + GateOf(loop).own_interval);
  loop.passed = loop.pinned = false;
  if (GateOf(loop).uses_memory) UseScene(loop);
  // Buffers are copied while the program draws.
  if (Gate& gate = GateOf(loop); run_.memory == MemoryMode::kFixed && gate.memory.footprint > 0) {
    const MemoryModel::Touched touched = NodeOf(loop).memory.Touch(now_, gate.memory);
    present = std::max(present, touched.there);
    NoteMemory(gate);
    NoteCopied(gate, touched.copied);
  }
  if (tenant.compute) {
    loop.task_left = loop.task_cost = loop.cost;
    loop.task_waited = Duration{0};
    if (tenant.period > Duration{0}) {
      present = std::max(present, loop.release);
      loop.release += tenant.period * ((present - loop.release) / tenant.period + 1);
    }
    if (tenant.slice > Duration{0}) loop.cost = std::min(loop.cost, tenant.slice);
  }
  SetState(loop, State::kDrawing);
  loop.to_queue = loop.cost;
  loop.flushed = loop.entered = loop.settled = false;
  loop.interval = loop.paced = loop.waited = Duration{0};
  NoteWanting(index);
  Push(GateOf(loop).node, present, EventKind::kPresent, index, loop.stamp);
}

/// Launches the next slice of the same task.
void Simulation::Launch(std::uint32_t index) {
  Loop& loop = loops_[index];
  loop.cost = loop.to_queue = std::min(loop.task_left, GateOf(loop).tenant->slice);
  loop.waited = Duration{0};
  loop.pinned = false;
  CallPresent(index);
}

void Simulation::CallPresent(std::uint32_t index) {
  Loop& loop = loops_[index];
  loop.called = now_;
  if (loop.task_left == loop.task_cost) loop.task_began = now_;
  loop.foretold = loop.pacer.PredictedPresent();
  if (!loop.process && NodeOf(loop).up) Attach(index);
  if (GateOf(loop).tenant->cpu_only) {
    loop.submitted = now_;
    return EndFrame(index);
  }
  if (Elastic() && !Fetch(index)) return;
  const Gate& gate = GateOf(loop);
  if (gate.tenant->frames_ahead > 0 && gate.tenant->meter == Meter::kSpan && loop.process) Send(index);
  loop.reserved = loop.predicted > Duration{0} ? loop.predicted : kFirstPrediction;
  if (GateOf(loop).tenant->compute) loop.reserved = std::min(loop.reserved, kReservedMost);
  loop.synchronised = now_;
  if (!loop.process || gate.interval == Duration{0} || gate.tenant->compute) return EnterGate(index);
  loop.interval = gate.interval;
  if (gate.sync == proto::FrameSync::kNone || !loop.pacer.WorthSynchronising()) return KeepPace(index);
  SetState(loop, State::kSynchronising);
  loop.flushed = true;
  if (Elastic()) Pin(loop);
  Queue(index);
}

/// Goes on when the work that the gate's `sync` names is done. kAuto is a fence, as on hardware: it waits for the
/// previous frame.
void Simulation::Synchronise(std::uint32_t index) {
  Loop& loop = loops_[index];
  if (loop.to_queue > Duration{0}) return;  // the queue is full
  const proto::FrameSync sync = GateOf(loop).sync;
  // With a late frame start it waits for the work of this frame as well.
  if (sync == proto::FrameSync::kAuto && GateOf(loop).start == proto::FrameStart::kLate && loop.under_way > 0) return;
  if (GateOf(loop).tenant->frames_ahead > 0) {
    if (sync != proto::FrameSync::kFlush && loop.under_way > (sync == proto::FrameSync::kFinish ? 0 : 1)) return;
    loop.synchronised = now_;
    return KeepPace(index);
  }
  const Duration unfinished = loop.under_way > 0 ? Duration{loop.under_way * GateOf(loop).tenant->batch} : Duration{0};
  if (sync == proto::FrameSync::kFinish && loop.under_way > 0) return;
  const bool fence = sync == proto::FrameSync::kFence || sync == proto::FrameSync::kAuto;
  if (fence && unfinished > loop.cost + GateOf(loop).tenant->batch) return;
  loop.synchronised = now_;
  KeepPace(index);
}

void Simulation::KeepPace(std::uint32_t index) {
  Loop& loop = loops_[index];
  const Gate& gate = GateOf(loop);
  if (loop.state == State::kPaced) loop.pacer.Slept(loop.resumed, now_);
  if (!loop.process || gate.interval == Duration{0}) return EnterGate(index);
  loop.interval = gate.interval;
  const Instant submit = loop.pacer.SubmitAt(loop.interval);
  if (submit <= now_) return EnterGate(index);
  SetState(loop, State::kPaced);
  loop.resumed = submit;
  Push(gate.node, submit, EventKind::kPaceOver, index, ++loop.stamp);
}

void Simulation::EnterGate(std::uint32_t index) {
  Loop& loop = loops_[index];
  Gate& gate = GateOf(loop);
  loop.paced = now_ - loop.synchronised;
  loop.resumed = now_;
  if (!loop.process) return PassGate(index);
  if (gate.resting) {
    SampleNext(loop.gate);
    if (gate.mode == proto::GateMode::kGated) RingNow(gate.node);
  }
  const bool pass =
      gate.mode == proto::GateMode::kOpen || (gate.mode == proto::GateMode::kGated && gate.allowance_ns > 0);
  if (pass) {
    Charge(gate, loop.reserved);
    loop.entered = true;
    if (gate.mode == proto::GateMode::kGated) RingBell(gate.node);
    return PassGate(index);
  }
  SetState(loop, State::kWaiting);
  loop.starved_from = now_;
  NoteWanting(index);
  RingBell(gate.node);
}

void Simulation::SetState(Loop& loop, State state) {
  Node& node = NodeOf(loop);
  const bool waited = loop.state == State::kWaiting;
  loop.state = state;
  if (waited == (state == State::kWaiting)) return;
  node.waiting = waited ? node.waiting - 1 : node.waiting + 1;
  NoteIdle(node);
}

void Simulation::NoteIdle(Node& node) {
  const bool idle = node.batches == 0 && node.waiting > 0;
  if (idle == (node.idle_since != core::kNever)) return;
  if (idle)
    node.idle_since = now_;
  else
    EndIdle(node);
}

/// Counts the idle stretch in the second in which it ends.
void Simulation::EndIdle(Node& node) {
  const std::int64_t ns = (now_ - std::exchange(node.idle_since, core::kNever)).count();
  if (node.longest_idle_ns_by_s.size() <= Second()) node.longest_idle_ns_by_s.resize(Second() + 1);
  std::int64_t& longest = node.longest_idle_ns_by_s[Second()];
  longest = std::max(longest, ns);
}

void Simulation::PassGate(std::uint32_t index) {
  Loop& loop = loops_[index];
  if (Elastic() && !loop.pinned && MemoryIsGone(index)) return;
  loop.waited = now_ - loop.resumed;
  loop.submitted = now_;
  if (Elastic()) Pin(loop);
  SetState(loop, State::kQueueing);
  Queue(index);
}

}  // namespace weir::sim
