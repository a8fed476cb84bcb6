// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::engine {
namespace {

constexpr unsigned kNumberShift = 20;

bool IsClusterName(const std::string& text) {
  return !text.empty() && text.size() <= kClusterNameBytesMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  });
}

}  // namespace

Status CheckClusterName(const char* what, const std::string& text) {
  if (IsClusterName(text)) return Ok();
  return Fail(Errc::kInvalidArgument, fmt::format("{} is of 1 to {} of A-Z a-z 0-9 _ . -", what, kClusterNameBytesMax));
}

namespace {

bool IsSha256(const std::string& text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Status CheckRequest(const RunRequest& request) {
  WEIR_TRY_STATUS(CheckClusterName("a module's name", request.module));
  if (request.kernel.empty() || request.kernel.size() > kClusterNameBytesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("'kernel' has 1 to {} bytes", kClusterNameBytesMax));
  if (request.arguments.size() > kArgumentBytesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("'arguments' has {} bytes, and at most {} are allowed: put more "
                                                    "into a blob, as 'input'",
                                                    request.arguments.size(), kArgumentBytesMax));
  for (const std::string* blob : {&request.blob, &request.input})
    if (!blob->empty() && !IsSha256(*blob))
      return Fail(Errc::kInvalidArgument, "a blob is named by its SHA-256: 64 of 0-9 a-f");
  if (!(request.seconds_max > 0) || request.seconds_max > kRunSecondsMax)
    return Fail(Errc::kInvalidArgument, fmt::format("'seconds_max' is over 0 and at most {}", kRunSecondsMax));
  return core::CheckNeed(request.need);
}

Status CheckNode(const ClusterNode& node) {
  WEIR_TRY_STATUS(CheckClusterName("a node's name", node.name));
  WEIR_TRY_STATUS(CheckClusterName("a node's identity", node.identity));
  if (node.devices.size() > kNodeDevicesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("node {} has {} devices, and at most {} are taken", node.name,
                                                    node.devices.size(), kNodeDevicesMax));
  std::set<std::string> names;
  for (const NodeDevice& device : node.devices) {
    WEIR_TRY_STATUS(CheckClusterName("a device's name", device.name));
    WEIR_TRY_STATUS(core::CheckDevice(device.capacity));
    if (!names.insert(device.name).second)
      return Fail(Errc::kInvalidArgument, fmt::format("node {} has two devices named {}", node.name, device.name));
  }
  return Ok();
}

double Sane(double value) { return std::isfinite(value) && value >= 0 && value <= kRunSecondsMax ? value : 0; }

RunResult Sane(RunResult result) {
  result.seconds = Sane(result.seconds);
  result.ran_beside = Sane(result.ran_beside);
  if (result.text.size() > kArgumentBytesMax) result.text.resize(kArgumentBytesMax);
  if (result.error_message.size() > kArgumentBytesMax) result.error_message.resize(kArgumentBytesMax);
  if (!result.output.empty() && !IsSha256(result.output)) result.output.clear();
  return result;
}

/// Adds the hash of the run's work, if it is known.
core::RunNeed PlacedNeed(const RunRequest& request) {
  core::RunNeed need = request.need;
  if (request.input.empty()) need.work = core::WorkOf(request.blob, request.kernel, request.arguments);
  return need;
}

/// A repeated request may omit the blob, since the module's name may stand for another blob by now, and the need, which
/// then comes from the module.
bool SameRequest(RunRequest again, const RunRequest& first) {
  if (again.blob.empty()) again.blob = first.blob;
  if (again.need == core::RunNeed{}) again.need = first.need;
  return again == first;
}

}  // namespace

std::string_view NameOf(RunState state) {
  switch (state) {
    case RunState::kWaiting: return "waiting";
    case RunState::kRunning: return "running";
    case RunState::kDone: return "done";
    case RunState::kFailed: return "failed";
  }
  return "failed";
}

std::string_view NameOf(NodeState state) {
  switch (state) {
    case NodeState::kAwaited: return "awaited";
    case NodeState::kUp: return "up";
    case NodeState::kSuspect: return "suspect";
  }
  return "awaited";
}

ClusterEngine::ClusterEngine(std::unique_ptr<core::Placement> placement, std::uint64_t fence, ClusterBounds bounds)
    : bounds_(bounds), queue_(std::move(placement)), next_number_((fence << kNumberShift) + 1) {}

Status ClusterEngine::Step(Instant now, const ClusterEvent& event, ClusterActions& actions) {
  return std::visit([&](const auto& e) { return On(now, e, actions); }, event);
}

// -- What was stored -------------------------------------------------------------------------------------------------

void ClusterEngine::Restore(Instant now, const ClusterRecords& records, ClusterActions& actions) {
  for (const ClusterModule& module : records.modules) modules_[module.name] = module;
  for (const ClusterNode& record : records.nodes) {
    Node& node = nodes_[record.name];
    node.record = record;
    node.heard = now;
    AddDevices(now, node, actions);
  }
  std::vector<const ClusterRun*> in_order;
  for (const ClusterRun& run : records.runs) in_order.push_back(&run);
  std::ranges::sort(in_order, {}, [](const ClusterRun* run) { return run->number; });
  std::vector<std::string> waiting;
  for (const ClusterRun* stored : in_order) {
    ClusterRun& run = runs_[stored->id] = *stored;
    ids_[run.number] = run.id;
    next_number_ = std::max(next_number_, run.number + 1);
    ConfirmRun(run.id, stored);
    if (run.ended()) continue;
    if (run.state == RunState::kRunning) {
      const auto at = std::ranges::find_if(places_, [&run](const auto& entry) {
        return entry.second.node == run.node && entry.second.device == run.device;
      });
      if (at != places_.end() && queue_.Resume(core::RunId{run.number}, PlacedNeed(run.request), at->first)) {
        PutOn(now, run, at->first);
        continue;
      }
      run.state = RunState::kWaiting;
      WriteRun(run, actions);
    }
    waiting.push_back(run.id);
  }
  std::vector<core::RunAction> decided;
  for (const std::string& id : waiting) {
    ClusterRun& run = runs_.at(id);
    if (const Status status = queue_.Submit(core::RunId{run.number}, PlacedNeed(run.request), decided); !status)
      EndInFailure(run, status.error().code, status.error().message, actions);
  }
  CarryOut(now, decided, actions);
}

// -- Modules and runs ------------------------------------------------------------------------------------------------

Status ClusterEngine::On(Instant, const SetModule& event, ClusterActions& actions) {
  const ClusterModule& module = event.module;
  WEIR_TRY_STATUS(CheckClusterName("a module's name", module.name));
  if (!IsSha256(module.blob)) return Fail(Errc::kInvalidArgument, "a blob is named by its SHA-256: 64 of 0-9 a-f");
  for (const ModuleKernel& kernel : module.kernels) WEIR_TRY_STATUS(core::CheckNeed(kernel.need));
  const auto at = modules_.find(module.name);
  if (at != modules_.end() && at->second == module) return Ok();
  if (at == modules_.end() && modules_.size() >= kModulesMax)
    return Fail(Errc::kResourceExhausted,
                fmt::format("{} modules are registered, as many as may: remove one", modules_.size()));
  modules_[module.name] = module;
  Write({.sequence = 0, .kind = RecordWrite::Kind::kModule, .name = module.name, .record = module}, actions);
  return Ok();
}

Status ClusterEngine::On(Instant, const DropModule& event, ClusterActions& actions) {
  if (modules_.erase(event.name) == 0)
    return Fail(Errc::kNotFound, fmt::format("no module named '{}' is registered", event.name));
  WriteRemoval(RecordWrite::Kind::kModule, event.name, actions);
  return Ok();
}

Status ClusterEngine::On(Instant now, const SubmitRun& event, ClusterActions& actions) {
  WEIR_TRY_STATUS(CheckClusterName("a run's ID", event.id));
  if (const auto there = runs_.find(event.id); there != runs_.end()) {
    if (SameRequest(event.request, there->second.request)) return Ok();
    return Fail(Errc::kAlreadyExists,
                fmt::format("run {} was submitted with another body: choose another ID for another run", event.id));
  }
  ClusterRun run;
  run.id = event.id;
  run.request = event.request;
  const auto module = modules_.find(run.request.module);
  if (run.request.blob.empty()) {
    if (module == modules_.end())
      return Fail(Errc::kNotFound, fmt::format("no module named '{}' is registered", run.request.module));
    run.request.blob = module->second.blob;
  }
  if (module != modules_.end() && module->second.blob == run.request.blob) {
    const auto kernel = std::ranges::find(module->second.kernels, run.request.kernel, &ModuleKernel::name);
    if (kernel == module->second.kernels.end())
      return Fail(Errc::kNotFound,
                  fmt::format("module '{}' has no kernel '{}'", run.request.module, run.request.kernel));
    if (run.request.need == core::RunNeed{}) run.request.need = kernel->need;
  }
  WEIR_TRY_STATUS(CheckRequest(run.request));
  if (runs_.size() >= bounds_.runs_max)
    return Fail(Errc::kResourceExhausted,
                fmt::format("{} runs and results are in storage, the maximum: acknowledge results (DELETE /v1/runs/ID)",
                            runs_.size()));
  std::vector<core::RunAction> decided;
  WEIR_TRY_STATUS(queue_.Submit(core::RunId{next_number_}, PlacedNeed(run.request), decided));
  run.number = next_number_++;
  ids_[run.number] = run.id;
  runs_[run.id] = run;
  CarryOut(now, decided, actions);
  if (runs_.at(run.id).state == RunState::kWaiting) WriteRun(runs_.at(run.id), actions);
  return Ok();
}

Status ClusterEngine::On(Instant now, const RemoveRun& event, ClusterActions& actions) {
  const auto at = runs_.find(event.id);
  if (at == runs_.end()) return Fail(Errc::kNotFound, fmt::format("no run {}", event.id));
  const ClusterRun& run = at->second;
  std::vector<core::RunAction> decided;
  if (!run.ended()) {
    const core::RunId number{run.number};
    if (const DeviceId device = queue_.cluster().DeviceOf(number)) TakeOff(now, run, device);
    WEIR_CHECK(queue_.Withdraw(number, decided).has_value());
  }
  WriteRemoval(RecordWrite::Kind::kRun, run.id, actions);
  beside_.erase(run.number);
  ids_.erase(run.number);
  runs_.erase(at);
  CarryOut(now, decided, actions);
  return Ok();
}

Status ClusterEngine::On(Instant now, const ResultCame& event, ClusterActions& actions) {
  WEIR_TRY(Node* const node, Hear(now, event.name, event.session));
  const auto id = ids_.find(event.attempt.number);
  ClusterRun* const run = id == ids_.end() ? nullptr : &runs_.at(id->second);
  if (run == nullptr || run->state != RunState::kRunning || run->attempt != event.attempt.attempt ||
      run->node != node->record.name) {
    // A repeated message whose answer was lost, or the result of an attempt that was moved to another node.
    ++totals_.stale_results_total;
    return Ok();
  }
  run->result = Sane(event.result);
  run->state = run->result.failed ? RunState::kFailed : RunState::kDone;
  const core::RunId number{run->number};
  const DeviceId device = queue_.cluster().DeviceOf(number);
  TakeOff(now, *run, device);
  std::vector<core::RunAction> decided;
  WEIR_CHECK(queue_.Done(number, SeenOf(*run), decided).has_value());
  beside_.erase(run->number);
  WriteRun(*run, actions);
  CarryOut(now, decided, actions);
  return Ok();
}

void ClusterEngine::EndInFailure(ClusterRun& run, Errc code, std::string message, ClusterActions& actions) {
  run.state = RunState::kFailed;
  run.result = {.failed = true,
                .output = {},
                .text = {},
                .error_code = std::string(NameOf(code)),
                .error_message = std::move(message)};
  WriteRun(run, actions);
}

void ClusterEngine::CarryOut(Instant now, const std::vector<core::RunAction>& decided, ClusterActions& actions) {
  // If several devices are lost at once, a run may be started and lost again: the last decision counts.
  std::map<core::RunId, const core::RunAction*> last;
  for (const core::RunAction& action : decided) last[action.run] = &action;
  for (const auto& [number, action] : last) {
    const auto id = ids_.find(number.value);
    if (id == ids_.end()) continue;
    ClusterRun& run = runs_.at(id->second);
    if (run.state != RunState::kWaiting) continue;
    if (const DeviceId device = queue_.cluster().DeviceOf(number)) {
      const Place& place = places_.at(device);
      ++run.attempt;
      run.state = RunState::kRunning;
      run.node = place.node;
      run.device = place.device;
      PutOn(now, run, device);
      ++totals_.placed_total;
      if (run.attempt > 1) ++totals_.moved_total;
      WriteRun(run, actions);
    } else if (action->kind == core::RunAction::Kind::kRefuse) {
      EndInFailure(run, Errc::kResourceExhausted, core::Words(action->choice), actions);
    }
  }
}

// -- Nodes -----------------------------------------------------------------------------------------------------------

Result<ClusterEngine::Node*> ClusterEngine::Hear(Instant now, const std::string& name, std::uint64_t session) {
  const auto at = nodes_.find(name);
  if (at == nodes_.end() || !at->second.greeted || at->second.session != session)
    return Fail(Errc::kNotFound, fmt::format("node {} has no session {} here: send hello first", name, session));
  at->second.heard = now;
  at->second.suspect = false;
  return &at->second;
}

void ClusterEngine::AddDevices(Instant now, Node& node, ClusterActions& actions) {
  std::vector<core::RunAction> decided;
  for (const NodeDevice& device : node.record.devices) {
    const DeviceId id{next_device_++};
    // Must precede the queue's knowledge of the device, since the queue may start runs there at once.
    Place& place = places_[id];
    place.node = node.record.name;
    place.device = device.name;
    place.capacity = device.capacity;
    place.since = now;
    WEIR_CHECK(queue_.AddDevice(id, device.capacity, decided).has_value());
    node.devices.push_back(id);
  }
  CarryOut(now, decided, actions);
}

void ClusterEngine::LoseDevices(Instant now, Node& node, const std::string& why, ClusterActions& actions) {
  std::vector<std::string> lost;
  std::vector<core::RunAction> decided;
  for (const DeviceId device : node.devices) {
    for (const core::RunId number : queue_.cluster().RunsOn(device)) {
      ClusterRun& run = runs_.at(ids_.at(number.value));
      if (run.state != RunState::kRunning)
        continue;  // the queue has just placed it here, from a device lost before this one
      run.state = RunState::kWaiting;
      beside_.erase(run.number);
      lost.push_back(run.id);
    }
    WEIR_CHECK(queue_.LoseDevice(device, decided).has_value());
    places_.erase(device);
  }
  node.devices.clear();
  for (const std::string& id : lost) {
    ClusterRun& run = runs_.at(id);
    if (run.attempt < bounds_.attempts_max) continue;
    // The queue may have refused it already, if no remaining device could hold it.
    (void)queue_.Withdraw(core::RunId{run.number}, decided).has_value();
    EndInFailure(
        run, Errc::kUnavailable,
        fmt::format("given up after {} attempts: {} each time, at last on node {}", run.attempt, why, run.node),
        actions);
  }
  CarryOut(now, decided, actions);
  for (const std::string& id : lost)
    if (const ClusterRun& run = runs_.at(id); run.state == RunState::kWaiting) WriteRun(run, actions);
}

Status ClusterEngine::On(Instant now, const NodeHello& event, ClusterActions& actions) {
  WEIR_TRY_STATUS(CheckNode(event.node));
  const auto there = nodes_.find(event.node.name);
  if (there != nodes_.end() && there->second.record.identity != event.node.identity)
    return Fail(
        Errc::kAlreadyExists,
        fmt::format("another node named {} is {} (last contact {:.1f} s ago): give one of them another name with "
                    "--node-name",
                    event.node.name, there->second.greeted ? "here" : "awaited", SecondsOf(now - there->second.heard)));
  if (there == nodes_.end() && nodes_.size() >= kNodesMax)
    return Fail(Errc::kResourceExhausted, fmt::format("{} nodes have joined, the maximum", nodes_.size()));

  Node& node = nodes_[event.node.name];
  node.greeted = true;
  node.suspect = false;
  node.heard = now;
  node.session = next_session_++;
  node.has = {event.has.begin(), event.has.end()};
  actions.session = node.session;
  if (node.record == event.node) return Ok();

  const bool fresh = there == nodes_.end();
  if (!fresh) LoseDevices(now, node, "the devices of its node were changed", actions);
  node.record = event.node;
  Write({.sequence = 0, .kind = RecordWrite::Kind::kNode, .name = event.node.name, .record = event.node}, actions);
  if (fresh)
    for (const auto& [id, run] : confirmed_runs_)
      if (run.state == RunState::kRunning && run.node == event.node.name) node.to[run.Attempt()] = id;
  AddDevices(now, node, actions);
  actions.notes.push_back(fmt::format("node {} is here with {} devices", event.node.name, event.node.devices.size()));
  return Ok();
}

Status ClusterEngine::On(Instant now, const NodeHeard& event, ClusterActions&) {
  WEIR_TRY(Node* const node, Hear(now, event.name, event.session));
  (void)node;
  return Ok();
}

bool ClusterEngine::HasWork(const std::string& name) const {
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return false;
  const Node& node = at->second;
  for (const RunAttempt& attempt : node.has)
    if (!node.to.contains(attempt)) return true;
  return std::ranges::any_of(node.to, [&](const auto& entry) {
    if (node.has.contains(entry.first)) return false;
    const auto run = runs_.find(entry.second);
    return run != runs_.end() && run->second.state == RunState::kRunning && run->second.Attempt() == entry.first;
  });
}

Status ClusterEngine::On(Instant now, const TakeWork& event, ClusterActions& actions) {
  WEIR_TRY(Node* const node, Hear(now, event.name, event.session));
  for (const RunAttempt& attempt : node->has)
    if (!node->to.contains(attempt)) actions.work.drop.push_back(attempt);
  for (const RunAttempt& attempt : actions.work.drop) node->has.erase(attempt);
  for (const auto& [attempt, id] : node->to) {
    if (node->has.contains(attempt)) continue;
    // An attempt whose move is decided but not yet confirmed is no longer started.
    const auto run = runs_.find(id);
    if (run == runs_.end() || run->second.state != RunState::kRunning || run->second.Attempt() != attempt) continue;
    actions.work.start.push_back(run->second);
    node->has.insert(attempt);
  }
  return Ok();
}

Status ClusterEngine::On(Instant now, const LookAround&, ClusterActions& actions) {
  std::vector<std::string> lost;
  for (auto& [name, node] : nodes_) {
    const Duration silent = now - node.heard;
    node.suspect = silent >= bounds_.suspect_after;
    if (silent >= bounds_.lost_after) lost.push_back(name);
  }
  for (const std::string& name : lost) {
    Node& node = nodes_.at(name);
    actions.notes.push_back(fmt::format("node {} is lost: not heard of for {:.1f} s; it had {} runs", name,
                                        SecondsOf(now - node.heard), node.to.size()));
    LoseDevices(now, node, "its node was lost", actions);
    nodes_.erase(name);
    WriteRemoval(RecordWrite::Kind::kNode, name, actions);
    ++totals_.nodes_lost_total;
  }
  return Ok();
}

Instant ClusterEngine::LookAgain() const {
  Instant next = core::kNever;
  for (const auto& [name, node] : nodes_)
    next = std::min(next, node.heard + (node.suspect ? bounds_.lost_after : bounds_.suspect_after));
  return next;
}

// -- Writes, and what they confirm -----------------------------------------------------------------------------------

void ClusterEngine::Write(RecordWrite write, ClusterActions& actions) {
  write.sequence = ++sequence_;
  unconfirmed_.push_back(write);
  actions.writes.push_back(std::move(write));
}

void ClusterEngine::WriteRun(const ClusterRun& run, ClusterActions& actions) {
  Write({.sequence = 0, .kind = RecordWrite::Kind::kRun, .name = run.id, .record = run}, actions);
}

void ClusterEngine::WriteRemoval(RecordWrite::Kind kind, const std::string& name, ClusterActions& actions) {
  Write({.sequence = 0, .kind = kind, .name = name, .record = std::nullopt}, actions);
}

Status ClusterEngine::On(Instant, const Stored& event, ClusterActions&) {
  WEIR_CHECK(event.sequence <= sequence_);
  while (!unconfirmed_.empty() && unconfirmed_.front().sequence <= event.sequence) {
    Confirm(unconfirmed_.front());
    unconfirmed_.pop_front();
  }
  confirmed_ = std::max(confirmed_, event.sequence);
  return Ok();
}

void ClusterEngine::Confirm(const RecordWrite& write) {
  if (write.kind != RecordWrite::Kind::kRun) return;
  ConfirmRun(write.name, write.record ? std::get_if<ClusterRun>(&*write.record) : nullptr);
}

void ClusterEngine::ConfirmRun(const std::string& id, const ClusterRun* run) {
  const auto before = confirmed_runs_.find(id);
  if (before != confirmed_runs_.end() && before->second.state == RunState::kRunning) {
    const RunAttempt attempt = before->second.Attempt();
    if (const auto node = nodes_.find(before->second.node); node != nodes_.end()) {
      node->second.to.erase(attempt);
      // The node waits for this confirmation and then deletes the result by itself.
      if (run != nullptr && run->ended() && run->Attempt() == attempt) node->second.has.erase(attempt);
    }
  }
  if (run == nullptr) {
    confirmed_runs_.erase(id);
    return;
  }
  confirmed_runs_[id] = *run;
  if (run->state != RunState::kRunning) return;
  if (const auto node = nodes_.find(run->node); node != nodes_.end()) node->second.to[run->Attempt()] = id;
}

// -- What was beside a run -------------------------------------------------------------------------------------------

void ClusterEngine::Account(Instant now, Place& place) {
  const double span = SecondsOf(now - place.since);
  place.since = now;
  core::CompanyNow all;
  for (const std::uint64_t number : place.numbers) all.Add(beside_.at(number).need);
  for (const std::uint64_t number : place.numbers) {
    Beside& one = beside_.at(number);
    one.company.Pass(span, one.need, all);
  }
}

void ClusterEngine::PutOn(Instant now, const ClusterRun& run, DeviceId device) {
  Place& place = places_.at(device);
  Account(now, place);
  place.numbers.insert(run.number);
  beside_[run.number] = {.need = PlacedNeed(run.request)};
}

void ClusterEngine::TakeOff(Instant now, const ClusterRun& run, DeviceId device) {
  Place& place = places_.at(device);
  Account(now, place);
  place.numbers.erase(run.number);
}

core::RunSeen ClusterEngine::SeenOf(const ClusterRun& run) const {
  const auto at = beside_.find(run.number);
  if (run.state != RunState::kDone || !run.request.need_alone || !(run.result.seconds > 0) || at == beside_.end())
    return {};
  return at->second.company.Seen(run.result.seconds * 1e3 / static_cast<double>(run.request.need.alone_ms));
}

// -- Asked -----------------------------------------------------------------------------------------------------------

const ClusterRun* ClusterEngine::FindRun(const std::string& id) const {
  const auto at = confirmed_runs_.find(id);
  return at == confirmed_runs_.end() ? nullptr : &at->second;
}

bool ClusterEngine::IsTaken(const std::string& name, RunAttempt attempt) const {
  const auto at = nodes_.find(name);
  return at == nodes_.end() || !at->second.to.contains(attempt);
}

bool ClusterEngine::IsSession(const std::string& name, std::uint64_t session) const {
  const auto at = nodes_.find(name);
  return at != nodes_.end() && at->second.greeted && at->second.session == session;
}

std::vector<ClusterNodeStatus> ClusterEngine::Nodes(Instant now) const {
  std::vector<ClusterNodeStatus> all;
  for (const auto& [name, node] : nodes_) {
    const PartsOffer* const offer = OfferOf(now, node);
    all.push_back({.node = node.record,
                   .state = !node.greeted  ? NodeState::kAwaited
                            : node.suspect ? NodeState::kSuspect
                                           : NodeState::kUp,
                   .silent = now - node.heard,
                   .running = node.to.size(),
                   .offer = offer != nullptr ? std::optional(*offer) : std::nullopt});
  }
  return all;
}

std::size_t ClusterEngine::RunsOn(const std::string& node, const std::string& device) const {
  for (const auto& [id, place] : places_)
    if (place.node == node && place.device == device) return place.numbers.size();
  return 0;
}

ClusterCounts ClusterEngine::Counts() const {
  ClusterCounts counts = totals_;
  for (const auto& [id, run] : confirmed_runs_) {
    switch (run.state) {
      case RunState::kWaiting: ++counts.waiting; break;
      case RunState::kRunning: ++counts.running; break;
      case RunState::kDone: ++counts.done; break;
      case RunState::kFailed: ++counts.failed; break;
    }
  }
  counts.nodes = nodes_.size();
  counts.devices = places_.size();
  counts.modules = modules_.size();
  return counts;
}

Result<std::vector<ClusterEngine::Candidate>> ClusterEngine::ExplainRun(const std::string& id) {
  const auto run = runs_.find(id);
  if (run == runs_.end()) return Fail(Errc::kNotFound, fmt::format("no run {}", id));
  const core::InterferenceModel* model = queue_.placement().model();
  std::vector<Candidate> all;
  for (core::PlacementCandidate& candidate :
       core::Explain(queue_.cluster(), model != nullptr ? *model : first_guess_, PlacedNeed(run->second.request))) {
    const Place& place = places_.at(candidate.device);
    all.push_back({place.node, place.device, std::move(candidate)});
  }
  return all;
}

}  // namespace weir::engine
