// SPDX-License-Identifier: Apache-2.0
// Runs and modules of a cluster: restoring them, requests of clients, results of nodes, and decisions of the queue.
#include "engine/cluster_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/cluster_checks.h"

namespace weir::engine {
namespace {

/// A run's number is the fencing token of the leader, shifted by this, and a count. The token grows with each write of
/// at most kChangesMax records, so that the count does not reach the numbers of the next leader.
constexpr unsigned kNumberShift = 20;

}  // namespace

ClusterEngine::ClusterEngine(std::unique_ptr<core::Placement> placement, std::uint64_t fence, ClusterBounds bounds)
    : bounds_(bounds), queue_(std::move(placement)), next_number_((fence << kNumberShift) + 1) {}

Status ClusterEngine::Step(Instant now, const ClusterEvent& event, ClusterActions& actions) {
  return std::visit([&](const auto& e) { return On(now, e, actions); }, event);
}

// -- Stored records --------------------------------------------------------------------------------------------------

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
      if (at != places_.end() &&
          queue_.Resume(now, core::RunId{run.number}, {.need = PlacedNeed(run.request)}, at->first))
        continue;
      run.state = RunState::kWaiting;
      WriteRun(run, actions);
    }
    waiting.push_back(run.id);
  }
  std::vector<core::RunAction> decided;
  for (const std::string& id : waiting) {
    ClusterRun& run = runs_.at(id);
    if (const Status status = queue_.Submit(now, core::RunId{run.number}, {.need = PlacedNeed(run.request)}, decided);
        !status)
      EndInFailure(run, status.error().code, status.error().message, actions);
  }
  CarryOut(decided, actions);
}

// -- Modules and runs ------------------------------------------------------------------------------------------------

Status ClusterEngine::On(Instant, const SetModule& event, ClusterActions& actions) {
  WEIR_TRY(const ClusterModule module, CheckedModule(event.module));
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
    if (there->second.tenant != event.tenant)
      return Fail(Errc::kAlreadyExists, fmt::format("the ID {} is in use: choose another one", event.id));
    if (SameRequest(event.request, there->second.request)) return Ok();
    return Fail(Errc::kAlreadyExists,
                fmt::format("run {} was submitted with another body: choose another ID for another run", event.id));
  }
  ClusterRun run;
  run.id = event.id;
  run.tenant = event.tenant;
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
  WEIR_TRY_STATUS(queue_.Submit(now, core::RunId{next_number_}, {.need = PlacedNeed(run.request)}, decided));
  run.number = next_number_++;
  ids_[run.number] = run.id;
  runs_[run.id] = run;
  CarryOut(decided, actions);
  if (runs_.at(run.id).state == RunState::kWaiting) WriteRun(runs_.at(run.id), actions);
  return Ok();
}

Status ClusterEngine::On(Instant now, const RemoveRun& event, ClusterActions& actions) {
  const auto at = runs_.find(event.id);
  if (at == runs_.end()) return Fail(Errc::kNotFound, fmt::format("no run {}", event.id));
  const ClusterRun& run = at->second;
  std::vector<core::RunAction> decided;
  if (!run.ended()) WEIR_CHECK(queue_.Withdraw(now, core::RunId{run.number}, decided).has_value());
  WriteRemoval(RecordWrite::Kind::kRun, run.id, actions);
  ids_.erase(run.number);
  runs_.erase(at);
  CarryOut(decided, actions);
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
  std::vector<core::RunAction> decided;
  WEIR_CHECK(queue_.Done(now, number, SeenOf(now, *run), decided).has_value());
  WriteRun(*run, actions);
  CarryOut(decided, actions);
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

void ClusterEngine::CarryOut(const std::vector<core::RunAction>& decided, ClusterActions& actions) {
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
      ++totals_.placed_total;
      if (run.attempt > 1) ++totals_.moved_total;
      WriteRun(run, actions);
    } else if (action->kind == core::RunAction::Kind::kRefuse) {
      EndInFailure(run, Errc::kResourceExhausted, core::Words(action->choice), actions);
    }
  }
}

core::RunSeen ClusterEngine::SeenOf(Instant now, const ClusterRun& run) {
  if (run.state != RunState::kDone || !run.request.need_alone || !(run.result.seconds > 0)) return {};
  return queue_.Beside(now, core::RunId{run.number},
                       run.result.seconds * 1e3 / static_cast<double>(run.request.need.alone_ms));
}

}  // namespace weir::engine
