// SPDX-License-Identifier: Apache-2.0
#include "core/placement/run_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weir::core {

Status RunQueue::AddDevice(Instant now, DeviceId device, const std::string& name, const DeviceCapacity& capacity,
                           std::vector<RunAction>& actions) {
  WEIR_TRY_STATUS(cluster_.Add(device, capacity));
  devices_[device] = {.name = name, .since = now};
  if (const auto returned = returning_.find(name); returned != returning_.end()) returning_.erase(returned);
  StartWhatFits(now, actions);
  return Ok();
}

Status RunQueue::LoseDevice(Instant now, DeviceId device, const DeviceLoss& loss, std::vector<RunAction>& actions) {
  if (const DeviceState* const state = cluster_.StateOf(device); state != nullptr && loss.returns) {
    // More lost devices than this are forgotten: runs that only they hold are refused.
    if (returning_.size() < kReturningMax)
      returning_.emplace(devices_.at(device).name, cluster_.CapacityOf(*state).memory);
  }
  WEIR_TRY(const std::vector<RunId> lost, cluster_.Remove(device));
  devices_.erase(device);
  std::vector<Waiting> back;
  for (const RunId run : lost) {
    const auto running = running_.find(run);
    if (std::ranges::find(loss.ended, run) == loss.ended.end()) {
      back.push_back({run, std::move(running->second.wish), loss.alone});
      waiting_ids_.insert(run);
    }
    running_.erase(running);
  }
  waiting_.insert(waiting_.begin(), back.begin(), back.end());
  StartWhatFits(now, actions);
  return Ok();
}

Status RunQueue::Submit(Instant now, RunId run, const RunWish& wish, std::vector<RunAction>& actions) {
  if (!run) return Fail(Errc::kInvalidArgument, "a run's id is 1 or more");
  WEIR_TRY_STATUS(CheckNeed(wish.need));
  if (running_.contains(run) || waiting_ids_.contains(run))
    return Fail(Errc::kAlreadyExists, fmt::format("run {} was submitted already", run.value));
  if (waiting_.size() >= kWaitingMax)
    return Fail(Errc::kResourceExhausted,
                fmt::format("{} runs wait, as many as may: submit run {} later", waiting_.size(), run.value));
  waiting_.push_back({run, wish});
  waiting_ids_.insert(run);
  if (!held_up_ || waiting_.size() == 1) StartWhatFits(now, actions);
  return Ok();
}

Status RunQueue::Resume(Instant now, RunId run, const RunWish& wish, DeviceId device) {
  if (waiting_ids_.contains(run)) return Fail(Errc::kAlreadyExists, fmt::format("run {} waits", run.value));
  if (devices_.contains(device)) Account(now, device);
  WEIR_TRY_STATUS(cluster_.Place(run, wish.need, device));
  running_[run] = {.wish = wish};
  return Ok();
}

Status RunQueue::Withdraw(Instant now, RunId run, std::vector<RunAction>& actions) {
  if (waiting_ids_.erase(run) != 0)
    std::erase_if(waiting_, [run](const Waiting& waiting) { return waiting.run == run; });
  else if (!TakeOff(now, run))
    return Fail(Errc::kNotFound, fmt::format("run {} can't be withdrawn: it neither waits nor runs", run.value));
  StartWhatFits(now, actions);
  return Ok();
}

Status RunQueue::Done(Instant now, RunId run, const RunSeen& seen, std::vector<RunAction>& actions) {
  const RunNeed* need = cluster_.NeedOf(run);
  if (need == nullptr) return Fail(Errc::kNotFound, fmt::format("run {} is not running", run.value));
  if (InterferenceModel* model = placement_->model(); model != nullptr && seen.slowdown > 0)
    model->Observe(*need, seen, cluster_.CapacityOf(*cluster_.StateOf(cluster_.DeviceOf(run))));
  WEIR_TRY_STATUS(TakeOff(now, run));
  StartWhatFits(now, actions);
  return Ok();
}

RunSeen RunQueue::Beside(Instant now, RunId run, double slowdown) {
  const auto running = running_.find(run);
  if (running == running_.end()) return {};
  Account(now, cluster_.DeviceOf(run));
  return running->second.company.Seen(slowdown);
}

std::size_t RunQueue::WaitingFor(const std::string& name) const {
  return static_cast<std::size_t>(
      std::ranges::count(waiting_, name, [](const Waiting& run) { return run.wish.device; }));
}

PlacementChoice RunQueue::Choose(const Waiting& run) {
  if (!run.alone && run.wish.device.empty()) return placement_->Choose(cluster_, run.wish.need);
  return ChooseAmong(run);
}

PlacementChoice RunQueue::ChooseAmong(const Waiting& run) const {
  bool there = false, holds = false;
  for (const auto& [id, device] : devices_) {
    if (!run.wish.device.empty() && device.name != run.wish.device) continue;
    const DeviceState& state = *cluster_.StateOf(id);
    const DeviceCapacity& capacity = cluster_.CapacityOf(state);
    there = true;
    holds = holds || DeviceState{}.Holds(run.wish.need, capacity);
    if (!state.Holds(run.wish.need, capacity) || (run.alone && state.runs > 0)) continue;
    return {.device = id, .reason = run.alone ? PlacementReason::kIdle : PlacementReason::kNamed};
  }
  const bool ever = there ? holds : cluster_.EverHolds(run.wish.need);
  return {.reason = ever ? PlacementReason::kNoRoom : PlacementReason::kTooLarge};
}

void RunQueue::StartWhatFits(Instant now, std::vector<RunAction>& actions) {
  std::set<std::string> taken;  // names of devices for which a run waits that came before
  held_up_ = false;
  // Without any device, the capacity of future devices is unknown, so nothing is refused.
  for (std::size_t i = 0; i < waiting_.size() && cluster_.devices() > 0;) {
    const Waiting& run = waiting_[i];
    if (taken.contains(run.wish.device)) {
      ++i;
      continue;
    }
    const PlacementChoice choice = Choose(run);
    const bool refused = choice.reason == PlacementReason::kTooLarge && !WillHold(run.wish);
    if (!choice.device && !refused) {
      // A run that only a lost device can hold waits for none of those that later runs could have.
      if (run.wish.device.empty() && choice.reason != PlacementReason::kTooLarge) {
        held_up_ = true;
        return;
      }
      if (!run.wish.device.empty()) taken.insert(run.wish.device);
      ++i;
      continue;
    }
    actions.push_back({refused ? RunAction::Kind::kRefuse : RunAction::Kind::kStart, run.run, choice});
    if (choice.device) PutOn(now, run, choice.device);
    waiting_ids_.erase(run.run);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool RunQueue::WillHold(const RunWish& wish) const {
  return std::ranges::any_of(returning_, [&wish](const auto& lost) {
    return wish.need.memory <= lost.second && (wish.device.empty() || wish.device == lost.first);
  });
}

void RunQueue::PutOn(Instant now, const Waiting& run, DeviceId device) {
  Account(now, device);
  RunNeed need = run.wish.need;
  // A run that runs alone takes all memory, so that no byte is left for another run.
  if (run.alone) need.memory = cluster_.CapacityOf(*cluster_.StateOf(device)).memory;
  WEIR_CHECK(cluster_.Place(run.run, need, device).has_value());
  running_[run.run] = {.wish = run.wish};
}

Status RunQueue::TakeOff(Instant now, RunId run) {
  if (const DeviceId device = cluster_.DeviceOf(run)) Account(now, device);
  running_.erase(run);
  return cluster_.Release(run);
}

void RunQueue::Account(Instant now, DeviceId id) {
  Device& device = devices_.at(id);
  const double span = SecondsOf(now - device.since);
  device.since = now;
  if (!(span > 0)) return;
  CompanyNow all;
  const std::vector<RunId> there = cluster_.RunsOn(id);
  for (const RunId run : there) all.Add(*cluster_.NeedOf(run));
  for (const RunId run : there) running_.at(run).company.Pass(span, *cluster_.NeedOf(run), all);
}

}  // namespace weir::core
