// SPDX-License-Identifier: Apache-2.0
#include "modules/run_book.h"

#include <fmt/format.h>

#include <algorithm>

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

Status RunBook::AddDevice(DeviceId device, const std::string& name, const core::DeviceCapacity& capacity, Instant now,
                          std::vector<BookAction>& actions) {
  std::vector<core::RunAction> decided;
  WEIR_TRY_STATUS(queue_.AddDevice(now, device, name, capacity, decided));
  largest_ = std::max(largest_, capacity.memory);
  devices_[device] = {.name = name, .capacity = capacity};
  CarryOut(now, decided, actions);
  return Ok();
}

void RunBook::LoseDevice(DeviceId device, RunId guilty, const Error& why, Instant now,
                         std::vector<BookAction>& actions) {
  if (!devices_.contains(device)) return;
  std::vector<RunId> failed;
  // A host is not trusted: a guilty run that is not on its device is ignored.
  for (const RunId number : queue_.cluster().RunsOn(device)) {
    Run& run = runs_.at(number);
    run.ran_beside = queue_.Beside(now, number).neighbours;
    run.stage = RunStage::kWaiting;
    run.ended = now;
    if (number == guilty) {
      run.error = why;
    } else if (run.attempt >= kAttemptsMax) {
      run.error = Fail(Errc::kUnavailable, fmt::format("{} hosts of {} ended while it ran, the last one: {}",
                                                       run.attempt, run.device_name, why.message));
    } else {
      continue;
    }
    failed.push_back(number);
    End(run, RunStage::kFailed, now, actions);
  }
  std::vector<core::RunAction> decided;
  WEIR_CHECK(queue_.LoseDevice(now, device, {.returns = true, .alone = true, .ended = failed}, decided).has_value());
  devices_.erase(device);
  CarryOut(now, decided, actions);
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
  // Each run needs at least one byte, so that no other run starts beside a run that takes all of the memory.
  core::RunWish wish{.need = spec.need, .device = spec.device};
  if (spec.input.empty()) wish.need.work = core::WorkOf(spec.blob, spec.kernel, spec.arguments);
  wish.need.memory.count = std::max<std::uint64_t>(wish.need.memory.count, 1);
  const RunId number{last_number_ + 1};
  std::vector<core::RunAction> decided;
  WEIR_TRY_STATUS(queue_.Submit(now, number, wish, decided));
  ++last_number_;
  Run& run = runs_[number];
  run = {.number = number, .id = id, .spec = spec};
  numbers_[id] = number;
  CarryOut(now, decided, actions);
  return &run;
}

void RunBook::CarryOut(Instant now, const std::vector<core::RunAction>& decided, std::vector<BookAction>& actions) {
  for (const core::RunAction& action : decided) {
    Run& run = runs_.at(action.run);
    if (action.kind == core::RunAction::Kind::kRefuse) {
      run.error = Fail(Errc::kResourceExhausted,
                       run.spec.device.empty()
                           ? fmt::format("it needs {} bytes of device memory, and the largest device has {}",
                                         run.spec.need.memory.count, largest_.count)
                           : fmt::format("it needs {} bytes of device memory, which device '{}' doesn't have",
                                         run.spec.need.memory.count, run.spec.device));
      End(run, RunStage::kFailed, now, actions);
      continue;
    }
    run.stage = RunStage::kRunning;
    ++run.attempt;
    run.device = action.choice.device;
    run.device_name = devices_.at(run.device).name;
    run.started = now;
    run.ran_beside = 0;
    actions.push_back({BookAction::Kind::kStart, run.number, run.device});
  }
}

void RunBook::End(Run& run, RunStage stage, Instant now, std::vector<BookAction>& actions) {
  run.stage = stage;
  run.ended = now;
  actions.push_back({BookAction::Kind::kOver, run.number, run.device});
}

void RunBook::Finish(DeviceId device, RunId number, RunResult result, Instant now, std::vector<BookAction>& actions) {
  if (FindRunning(device, number) == nullptr) return;
  Run& run = runs_.at(number);
  const double span_ms = SecondsOf(now - run.started) * 1e3;
  const bool learned = run.spec.measured && !result.error;
  const core::RunSeen seen =
      queue_.Beside(now, number, learned ? span_ms / static_cast<double>(run.spec.need.alone_ms) : 0);
  run.ran_beside = seen.neighbours;
  run.output = std::move(result.output);
  run.text = std::move(result.text);
  run.error = std::move(result.error);
  run.measured = result.measured;
  End(run, run.error ? RunStage::kFailed : RunStage::kDone, now, actions);
  std::vector<core::RunAction> decided;
  WEIR_CHECK(queue_.Done(now, number, seen, decided).has_value());
  CarryOut(now, decided, actions);
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
  std::vector<core::RunAction> decided;
  if (run.stage == RunStage::kWaiting) WEIR_CHECK(queue_.Withdraw(now, number, decided).has_value());
  numbers_.erase(found);
  runs_.erase(number);
  CarryOut(now, decided, actions);
  return true;
}

std::vector<RunId> RunBook::Running() const {
  std::vector<RunId> running;
  for (const auto& [id, device] : devices_) {
    const std::vector<RunId> there = queue_.cluster().RunsOn(id);
    running.insert(running.end(), there.begin(), there.end());
  }
  return running;
}

void RunBook::Tick(Instant now, std::vector<BookAction>& actions) {
  for (const RunId number : Running()) {
    const Run& run = runs_.at(number);
    // An earlier iteration may have ended the host of this run, so that the run has failed, waits or has started again.
    if (run.stage != RunStage::kRunning || now - run.started < run.spec.time_max) continue;
    const DeviceId device = run.device;
    LoseDevice(device, number,
               Fail(Errc::kTimeout,
                    fmt::format("it ran longer than its {:.3g} s (seconds_max)", SecondsOf(run.spec.time_max))),
               now, actions);
    actions.push_back({BookAction::Kind::kEndHost, number, device});
  }
}

std::optional<Instant> RunBook::NextDeadline() const {
  std::optional<Instant> next;
  for (const RunId number : Running()) {
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

const Run* RunBook::FindRunning(DeviceId device, RunId number) const {
  const Run* run = Find(number);
  return run != nullptr && run->stage == RunStage::kRunning && run->device == device ? run : nullptr;
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
    views.push_back({.id = id,
                     .name = device.name,
                     .capacity = device.capacity,
                     .running = queue_.cluster().StateOf(id)->runs,
                     .waiting = queue_.WaitingFor(device.name)});
  return views;
}

}  // namespace weir::modules
