// SPDX-License-Identifier: Apache-2.0
#include "modules/run_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weir::modules {

using core::RunId;

std::string_view NameOf(RunStage stage) {
  switch (stage) {
    case RunStage::kWaiting: return "waiting";
    case RunStage::kRunning: return "running";
    case RunStage::kDone: return "done";
    case RunStage::kFailed: return "failed";
  }
  return "failed";
}

void RunBook::Advance(DeviceId id, Instant now) {
  Device& device = devices_.at(id);
  const double span = SecondsOf(now - device.at);
  device.at = now;
  core::CompanyNow all;
  const std::vector<RunId> there = cluster_.RunsOn(id);
  for (const RunId run : there) all.Add(*cluster_.NeedOf(run));
  for (const RunId run : there) company_.at(run).Pass(span, *cluster_.NeedOf(run), all);
}

Status RunBook::AddDevice(DeviceId device, const std::string& name, const core::DeviceCapacity& capacity, Instant now,
                          std::vector<BookAction>& actions) {
  WEIR_TRY_STATUS(cluster_.Add(device, capacity));
  largest_ = std::max(largest_, capacity.memory);
  devices_[device] = {.name = name, .capacity = capacity, .at = now};
  StartWhatFits(now, actions);
  return Ok();
}

void RunBook::LoseDevice(DeviceId device, RunId guilty, const Error& why, Instant now,
                         std::vector<BookAction>& actions) {
  if (!devices_.contains(device)) return;
  const std::vector<RunId> there = cluster_.RunsOn(device);
  // A host is not trusted: it may name a run that it does not have.
  const bool known = std::ranges::find(there, guilty) != there.end();
  for (auto at = there.rbegin(); at != there.rend(); ++at) {
    Run& run = runs_.at(*at);
    Close(run, /*learn=*/false, now);
    if (known && run.number == guilty) {
      run.error = why;
      End(run, RunStage::kFailed, now, actions);
    } else if (run.attempt >= kAttemptsMax) {
      run.error = Fail(Errc::kUnavailable, fmt::format("{} hosts of {} ended while it ran, the last one: {}",
                                                       run.attempt, run.device_name, why.message));
      End(run, RunStage::kFailed, now, actions);
    } else {
      run.stage = RunStage::kWaiting;
      waiting_.push_front(run.number);
    }
  }
  WEIR_CHECK(cluster_.Remove(device).has_value());
  devices_.erase(device);
  StartWhatFits(now, actions);
}

Result<const Run*> RunBook::Submit(const std::string& id, const RunSpec& spec, Instant now,
                                   std::vector<BookAction>& actions) {
  if (const Run* known = Find(id); known != nullptr) {
    if (known->spec.request == spec.request) return known;
    return Fail(Errc::kAlreadyExists,
                fmt::format("id '{}' belongs to another run: {} of module '{}'; choose another id", id,
                            known->spec.kernel, known->spec.module));
  }
  WEIR_TRY_STATUS(core::CheckNeed(spec.need));
  if (runs_.size() >= kRunsMax)
    return Fail(Errc::kResourceExhausted,
                fmt::format("{} runs are in storage, the maximum: delete those whose results you have", runs_.size()));
  const RunId number{++last_number_};
  Run& run = runs_[number];
  run = {.number = number, .id = id, .spec = spec};
  numbers_[id] = number;
  waiting_.push_back(number);
  StartWhatFits(now, actions);
  return &run;
}

DeviceId RunBook::ChooseDevice(const Run& run, core::RunNeed& need) {
  // At least one byte each: a run that takes all of the memory then leaves no room for another run.
  need = run.spec.need;
  if (run.spec.input.empty()) need.work = core::WorkOf(run.spec.blob, run.spec.kernel, run.spec.arguments);
  need.memory.count = std::max<std::uint64_t>(need.memory.count, 1);
  if (!run.alone() && run.spec.device.empty()) return placement_->Choose(cluster_, need).device;
  for (const auto& [id, device] : devices_) {
    if (!run.spec.device.empty() && device.name != run.spec.device) continue;
    const core::DeviceState& state = *cluster_.StateOf(id);
    if (!state.Holds(need, device.capacity) || (run.alone() && state.runs > 0)) continue;
    if (run.alone()) need.memory = device.capacity.memory;
    return id;
  }
  return {};
}

void RunBook::StartWhatFits(Instant now, std::vector<BookAction>& actions) {
  // A run that waits for room blocks later runs for the same device, so that it does not starve.
  std::set<std::string> held;
  for (std::size_t i = 0; i < waiting_.size();) {
    Run& run = runs_.at(waiting_[i]);
    const std::string& place = run.spec.device;
    if (held.contains(place)) {
      ++i;
      continue;
    }
    if (devices_.empty()) return;
    if (run.spec.need.memory > largest_) {
      run.error = Fail(Errc::kResourceExhausted,
                       fmt::format("it needs {} bytes of device memory, and the largest device has {}",
                                   run.spec.need.memory.count, largest_.count));
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      End(run, RunStage::kFailed, now, actions);
      continue;
    }
    core::RunNeed need;
    const DeviceId device = ChooseDevice(run, need);
    if (!device) {
      // This run could use any device: later runs may not take each device as it becomes free.
      if (place.empty()) return;
      held.insert(place);
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    Start(run, need, device, now, actions);
  }
}

void RunBook::Start(Run& run, const core::RunNeed& need, DeviceId device, Instant now,
                    std::vector<BookAction>& actions) {
  Advance(device, now);
  WEIR_CHECK(cluster_.Place(run.number, need, device).has_value());
  company_[run.number] = {};
  run.stage = RunStage::kRunning;
  ++run.attempt;
  run.device = device;
  run.device_name = devices_.at(device).name;
  run.started = now;
  run.ran_beside = 0;
  actions.push_back({BookAction::Kind::kStart, run.number, device});
}

/// Removes the run from its device, which still exists.
void RunBook::Close(Run& run, bool learn, Instant now) {
  Advance(run.device, now);
  run.ended = now;
  if (const double span = SecondsOf(now - run.started); span > 0) {
    const core::RunNeed& need = *cluster_.NeedOf(run.number);
    const core::RunSeen seen = company_.at(run.number).Seen(span * 1'000 / static_cast<double>(need.alone_ms));
    run.ran_beside = seen.neighbours;
    if (core::InterferenceModel* model = placement_->model(); learn && model != nullptr && run.spec.measured)
      model->Observe(need, seen, devices_.at(run.device).capacity);
  }
  company_.erase(run.number);
  WEIR_CHECK(cluster_.Release(run.number).has_value());
}

void RunBook::End(Run& run, RunStage stage, Instant now, std::vector<BookAction>& actions) {
  run.stage = stage;
  run.ended = now;
  actions.push_back({BookAction::Kind::kOver, run.number, run.device});
}

void RunBook::Finish(DeviceId device, RunId number, RunResult result, Instant now, std::vector<BookAction>& actions) {
  const auto found = runs_.find(number);
  if (found == runs_.end()) return;
  Run& run = found->second;
  if (run.stage != RunStage::kRunning || run.device != device) return;
  Close(run, /*learn=*/!result.error, now);
  run.output = std::move(result.output);
  run.text = std::move(result.text);
  run.error = std::move(result.error);
  run.measured = result.measured;
  End(run, run.error ? RunStage::kFailed : RunStage::kDone, now, actions);
  StartWhatFits(now, actions);
}

bool RunBook::Remove(const std::string& id, Instant now, std::vector<BookAction>& actions) {
  const auto found = numbers_.find(id);
  if (found == numbers_.end()) return false;
  const RunId number = found->second;
  Run& run = runs_.at(number);
  if (run.stage == RunStage::kRunning) {
    // A running thread can't be stopped; its process can be killed.
    const DeviceId device = run.device;
    LoseDevice(device, number, Fail(Errc::kUnavailable, "its client ended a run beside it"), now, actions);
    actions.push_back({BookAction::Kind::kEndHost, number, device});
  }
  if (run.stage == RunStage::kWaiting) std::erase(waiting_, number);
  numbers_.erase(found);
  runs_.erase(number);
  StartWhatFits(now, actions);
  return true;
}

void RunBook::Tick(Instant now, std::vector<BookAction>& actions) {
  for (bool again = true; again;) {
    again = false;
    for (const auto& entry : company_) {
      const RunId number = entry.first;  // LoseDevice changes company_, so that the loop starts again
      const Run& run = runs_.at(number);
      if (now - run.started < run.spec.time_max) continue;
      const DeviceId device = run.device;
      LoseDevice(device, number,
                 Fail(Errc::kTimeout,
                      fmt::format("it ran longer than its {:.3g} s (seconds_max)", SecondsOf(run.spec.time_max))),
                 now, actions);
      actions.push_back({BookAction::Kind::kEndHost, number, device});
      again = true;
      break;
    }
  }
}

std::optional<Instant> RunBook::NextDeadline() const {
  std::optional<Instant> next;
  for (const auto& [number, company] : company_) {
    const Run& run = runs_.at(number);
    const Instant due = run.started + run.spec.time_max;
    if (!next || due < *next) next = due;
  }
  return next;
}

const Run* RunBook::Find(const std::string& id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? nullptr : &runs_.at(found->second);
}

const Run* RunBook::Find(RunId run) const {
  const auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : &found->second;
}

std::vector<const Run*> RunBook::Runs() const {
  std::vector<const Run*> runs;
  for (const auto& [number, run] : runs_) runs.push_back(&run);
  return runs;
}

bool RunBook::UsesBlob(const std::string& blob) const {
  return std::ranges::any_of(runs_,
                             [&](const auto& entry) { return !entry.second.over() && entry.second.spec.blob == blob; });
}

std::vector<RunBook::DeviceView> RunBook::Devices() const {
  std::vector<DeviceView> views;
  for (const auto& [id, device] : devices_)
    views.push_back(
        {.id = id,
         .name = device.name,
         .capacity = device.capacity,
         .running = cluster_.StateOf(id)->runs,
         .waiting = static_cast<std::size_t>(std::ranges::count_if(
             waiting_, [&, &wanted = device.name](RunId run) { return runs_.at(run).spec.device == wanted; }))});
  return views;
}

}  // namespace weir::modules
