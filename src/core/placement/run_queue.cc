// SPDX-License-Identifier: Apache-2.0
#include "core/placement/run_queue.h"

#include <fmt/format.h>

#include <ranges>

namespace weir::core {

Status RunQueue::AddDevice(DeviceId device, const DeviceCapacity& capacity, std::vector<RunAction>& actions) {
  WEIR_TRY_STATUS(cluster_.Add(device, capacity));
  StartWhatFits(actions);
  return Ok();
}

Status RunQueue::LoseDevice(DeviceId device, std::vector<RunAction>& actions) {
  std::vector<Waiting> back;
  for (const RunId run : cluster_.RunsOn(device)) back.push_back({run, *cluster_.NeedOf(run)});
  WEIR_TRY(const std::vector<RunId> lost, cluster_.Remove(device));
  waiting_ids_.insert(lost.begin(), lost.end());
  waiting_.insert(waiting_.begin(), back.begin(), back.end());
  StartWhatFits(actions);
  return Ok();
}

Status RunQueue::Submit(RunId run, const RunNeed& need, std::vector<RunAction>& actions) {
  if (!run) return Fail(Errc::kInvalidArgument, "a run's id is 1 or more");
  WEIR_TRY_STATUS(CheckNeed(need));
  if (cluster_.DeviceOf(run) || waiting_ids_.contains(run))
    return Fail(Errc::kAlreadyExists, fmt::format("run {} was submitted already", run.value));
  if (waiting_.size() >= kWaitingMax)
    return Fail(Errc::kResourceExhausted,
                fmt::format("{} runs wait, as many as may: submit run {} later", waiting_.size(), run.value));
  waiting_.push_back({run, need});
  waiting_ids_.insert(run);
  if (waiting_.size() == 1) StartWhatFits(actions);
  return Ok();
}

Status RunQueue::Resume(RunId run, const RunNeed& need, DeviceId device) {
  if (waiting_ids_.contains(run)) return Fail(Errc::kAlreadyExists, fmt::format("run {} waits", run.value));
  return cluster_.Place(run, need, device);
}

Status RunQueue::Withdraw(RunId run, std::vector<RunAction>& actions) {
  if (waiting_ids_.erase(run) != 0)
    std::erase_if(waiting_, [run](const Waiting& waiting) { return waiting.run == run; });
  else if (!cluster_.Release(run))
    return Fail(Errc::kNotFound, fmt::format("run {} neither waits nor runs", run.value));
  StartWhatFits(actions);
  return Ok();
}

Status RunQueue::Done(RunId run, const RunSeen& seen, std::vector<RunAction>& actions) {
  const RunNeed* need = cluster_.NeedOf(run);
  if (need == nullptr) return Fail(Errc::kNotFound, fmt::format("run {} is not running", run.value));
  if (InterferenceModel* model = placement_->model(); model != nullptr && seen.slowdown > 0)
    model->Observe(*need, seen, cluster_.CapacityOf(*cluster_.StateOf(cluster_.DeviceOf(run))));
  WEIR_TRY_STATUS(cluster_.Release(run));
  StartWhatFits(actions);
  return Ok();
}

void RunQueue::StartWhatFits(std::vector<RunAction>& actions) {
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    const PlacementChoice choice = placement_->Choose(cluster_, first.need);
    if (!choice.device && choice.reason != PlacementReason::kTooLarge) return;
    // Without any device, the capacity of future devices is unknown, so nothing is refused.
    if (!choice.device && cluster_.devices() == 0) return;
    const RunAction action{choice.device ? RunAction::Kind::kStart : RunAction::Kind::kRefuse, first.run, choice};
    if (choice.device) WEIR_CHECK(cluster_.Place(first.run, first.need, choice.device).has_value());
    actions.push_back(action);
    waiting_ids_.erase(first.run);
    waiting_.pop_front();
  }
}

}  // namespace weir::core
