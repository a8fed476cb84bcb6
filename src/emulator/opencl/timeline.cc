// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/timeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::emulator::cl {

void Timeline::Move(Instant now) { now_ = std::max(now_, now); }

// -- Queues and lanes ------------------------------------------------------------------------------------------------

Timeline::QueueId Timeline::AddQueue(std::uint32_t device, bool in_order, std::size_t depth) {
  const QueueId id = next_queue_++;
  Queue& queue = queues_[id];
  queue.device = device;
  queue.in_order = in_order;
  queue.depth = depth == 0 ? kInFlightMax : std::min(depth, kInFlightMax);
  return id;
}

void Timeline::RemoveQueue(QueueId id) {
  const auto found = queues_.find(id);
  if (found == queues_.end()) return;
  found->second.removed = true;
  if (found->second.open.empty()) GiveLanesBack(id);
}

void Timeline::GiveLanesBack(QueueId id) {
  for (const std::uint32_t lane : queues_.at(id).lanes) lanes_[lane].users.erase(id);
  queues_.erase(id);
}

/// The lane for the queue's next command. An in-order queue has one lane. An out-of-order queue uses its lane with the
/// fewest commands, and gets further lanes up to kLanesPerQueueMax.
std::uint32_t Timeline::LaneFor(QueueId id, Queue& queue) {
  const auto least =
      std::ranges::min_element(queue.lanes, {}, [this](std::uint32_t lane) { return lanes_[lane].in_flight.size(); });
  if (least != queue.lanes.end() &&
      (queue.in_order || lanes_[*least].in_flight.empty() || queue.lanes.size() >= kLanesPerQueueMax))
    return *least;
  std::size_t best = lanes_.size();
  bool device_has_one = false;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].device != queue.device) continue;
    device_has_one = true;
    if (lanes_[i].users.contains(id)) continue;
    if (best == lanes_.size() || lanes_[i].users.size() < lanes_[best].users.size()) best = i;
  }
  const bool free = best < lanes_.size() && lanes_[best].users.empty();
  if (!free && (lanes_.size() < kLanesMax || !device_has_one)) {
    best = lanes_.size();
    lanes_.push_back({.device = queue.device, .users = {}, .in_flight = {}});
  }
  if (best == lanes_.size()) return *least;  // the queue has all lanes of the device already
  lanes_[best].users.insert(id);
  queue.lanes.push_back(static_cast<std::uint32_t>(best));
  return queue.lanes.back();
}

// -- What happens ----------------------------------------------------------------------------------------------------

bool Timeline::OrderedBy(const Command& before, const Command& after) const {
  return before.queue == after.queue && before.queue != 0 && queues_.at(before.queue).in_order;
}

CommandId Timeline::Add(Instant now, QueueId id, Order order, const Work& work, std::span<const CommandId> waits,
                        Before before) {
  Move(now);
  Queue& queue = queues_.at(id);
  const CommandId added = next_command_++;
  Command& command = commands_[added];
  command.queue = id;
  command.work = work;
  command.times.queued = now_;
  std::set<CommandId> all(waits.begin(), waits.end());
  if (!queue.in_order) {
    if (order != Order::kCommand && waits.empty() && before == Before::kGood)
      all.insert(queue.open.begin(), queue.open.end());
    if (queue.barrier != 0) all.insert(queue.barrier);
    if (order == Order::kBarrier) queue.barrier = added;
  }
  for (const CommandId one : all) {
    const auto waited = commands_.find(one);
    if (waited == commands_.end()) continue;
    waited->second.waiters.push_back(added);
    if (!OrderedBy(waited->second, command)) ++command.waits;
  }
  queue.open.insert(added);
  queue.waiting.insert(added);
  queue.last = added;
  changed_.insert(id);
  if (before == Before::kFailed) Fail(added, kWaitListFailed);
  if (before == Before::kLost) Lose(added, command, kWaitListFailed);
  Settle();
  return added;
}

CommandId Timeline::AddUserEvent(Instant now) {
  Move(now);
  const CommandId added = next_command_++;
  commands_[added].times.queued = now_;
  return added;
}

void Timeline::SetUserEvent(Instant now, CommandId event, int status) {
  Move(now);
  const auto found = commands_.find(event);
  if (found == commands_.end() || found->second.queue != 0) return;
  found->second.status = std::min(status, 0);
  Complete(event);
  Settle();
}

void Timeline::Computed(Instant now, CommandId id, int status, Duration cpu) {
  Move(now);
  const auto found = commands_.find(id);
  if (found == commands_.end() || found->second.computed || found->second.queue == 0) return;
  Command& command = found->second;
  if (status < 0 && command.status >= 0) {
    Fail(id, status);
  } else {
    command.computed = true;
    command.cpu = cpu;
    NoteFinished(id, command);
  }
  changed_.insert(command.queue);
  Settle();
}

/// Removes a command that the model has ended from its lane. Null: the end of the command is known already.
Timeline::Command* Timeline::Land(Instant now, CommandId id) {
  Move(now);
  const auto flying = in_flight_.find(id);
  if (flying == in_flight_.end()) return nullptr;
  Lane& lane = lanes_[flying->second];
  std::erase(lane.in_flight, id);
  changed_.insert(lane.users.begin(), lane.users.end());
  in_flight_.erase(flying);
  const auto found = commands_.find(id);
  if (found == commands_.end() || found->second.modelled) return nullptr;
  changed_.insert(found->second.queue);
  return &found->second;
}

void Timeline::Modelled(Instant now, CommandId id, Instant began, Instant ended) {
  if (Command* command = Land(now, id)) {
    command->times.began = began;
    command->times.ended = ended;
    MarkModelled(id, *command);
  }
  Settle();
}

void Timeline::Failed(Instant now, CommandId id) {
  if (Command* command = Land(now, id)) Lose(id, *command, kDeviceFailed);
  Settle();
}

void Timeline::Abandon(Instant now) {
  Move(now);
  abandoned_ = true;
  std::set<CommandId> flying;
  for (const auto& [id, lane] : in_flight_) flying.insert(id);
  in_flight_.clear();
  for (Lane& lane : lanes_) lane.in_flight.clear();
  for (const CommandId id : flying)
    if (const auto found = commands_.find(id); found != commands_.end()) MarkModelled(id, found->second);
  for (const auto& [id, queue] : queues_) changed_.insert(id);
  Settle();
}

// -- Consequences ----------------------------------------------------------------------------------------------------

void Timeline::Settle() {
  while (!changed_.empty()) {
    const QueueId id = *changed_.begin();
    changed_.erase(changed_.begin());
    Advance(id);
  }
}

void Timeline::Advance(QueueId id) {
  const auto found = queues_.find(id);
  if (found == queues_.end()) return;
  Queue& queue = found->second;
  // Complete() may change this queue again; Settle then calls Advance again.
  for (auto next = queue.waiting.begin(); next != queue.waiting.end();) {
    const CommandId command = *next++;
    if (Submit(id, queue, command))
      queue.waiting.erase(command);
    else if (queue.in_order)
      break;
  }
  while (!queue.finished.empty()) {
    const CommandId first = *queue.finished.begin();
    if (queue.in_order && first != *queue.open.begin()) break;
    Complete(first);
  }
  if (queue.removed && queue.open.empty()) GiveLanesBack(id);
}

/// Submits a command to the model if the command need not wait any longer. False: it has to wait.
bool Timeline::Submit(QueueId id, Queue& queue, CommandId which) {
  Command& command = commands_.at(which);
  if (command.modelled) return true;  // the command has failed
  if (command.waits > 0) return false;
  if (command.work.cost == Work::Cost::kNone || abandoned_) {
    MarkModelled(which, command);
    return true;
  }
  if (command.work.cost == Work::Cost::kMeasured && !command.computed) return false;
  const std::uint32_t lane = LaneFor(id, queue);
  if (lanes_[lane].in_flight.size() >= queue.depth) return false;
  lanes_[lane].in_flight.push_back(which);
  in_flight_[which] = lane;
  command.times.submitted = now_;
  submissions_.push_back({.command = which,
                          .device = queue.device,
                          .lane = lane,
                          .engine = command.work.engine,
                          .work = WorkOf(command),
                          .bytes = command.work.bytes,
                          .units = command.work.units});
  return true;
}

Duration Timeline::WorkOf(const Command& command) {
  if (command.work.cost == Work::Cost::kKnown) return command.work.time;
  return Duration{std::llround(static_cast<double>(command.cpu.count()) * command.work.factor)};
}

void Timeline::MarkModelled(CommandId id, Command& command) {
  command.modelled = true;
  NoteFinished(id, command);
}

void Timeline::NoteFinished(CommandId id, const Command& command) {
  if (command.computed && command.modelled) queues_.at(command.queue).finished.insert(id);
}

/// Fails a command that PoCL has failed or refused. Commands that wait for it in the same in-order queue fail at once,
/// before they could be submitted. Other commands that wait for it fail when it is complete, so that they do not
/// complete first.
void Timeline::Fail(CommandId failed, int status) {
  std::vector<CommandId> failing{failed};
  while (!failing.empty()) {
    const CommandId id = failing.back();
    failing.pop_back();
    Command& command = commands_.at(id);
    if (command.status < 0) continue;
    command.status = id == failed ? status : kWaitListFailed;
    command.computed = true;
    MarkModelled(id, command);
    changed_.insert(command.queue);
    for (const CommandId waiter : command.waiters)
      if (const auto found = commands_.find(waiter); found != commands_.end() && OrderedBy(command, found->second))
        failing.push_back(waiter);
  }
}

/// Fails a command that PoCL still computes, because the device has failed it. It is complete once it is computed.
void Timeline::Lose(CommandId id, Command& command, int status) {
  if (command.status < 0) return;
  command.lost = true;
  command.status = status;
  if (!command.modelled) MarkModelled(id, command);
}

void Timeline::Complete(CommandId id) {
  Command command = std::move(commands_.extract(id).mapped());
  if (command.queue != 0) {
    Queue& queue = queues_.at(command.queue);
    queue.finished.erase(id);
    queue.open.erase(id);
    queue.waiting.erase(id);
    if (queue.barrier == id) queue.barrier = 0;
  }
  Times& times = command.times;
  if (times.submitted == Instant{}) times.submitted = now_;
  if (times.ended == Instant{}) times.began = times.ended = now_;
  ends_.push_back({.command = id, .status = command.status, .lost = command.lost, .times = times});
  for (const CommandId one : command.waiters) {
    const auto found = commands_.find(one);
    if (found == commands_.end()) continue;
    Command& waiter = found->second;
    if (!OrderedBy(command, waiter)) --waiter.waits;
    if (command.status < 0 && command.lost) Lose(one, waiter, kWaitListFailed);
    if (command.status < 0 && !command.lost) Fail(one, kWaitListFailed);
    changed_.insert(waiter.queue);
  }
}

// -- What the caller asks --------------------------------------------------------------------------------------------

std::vector<Timeline::Submission> Timeline::TakeSubmissions() { return std::exchange(submissions_, {}); }
std::vector<Timeline::End> Timeline::TakeEnds() { return std::exchange(ends_, {}); }

Timeline::Phase Timeline::PhaseOf(CommandId id) const {
  const auto found = commands_.find(id);
  if (found == commands_.end()) return Phase::kComplete;
  const auto flying = in_flight_.find(id);
  if (flying != in_flight_.end())
    return lanes_[flying->second].in_flight.front() == id ? Phase::kRunning : Phase::kSubmitted;
  if (found->second.queue == 0) return Phase::kSubmitted;  // the state that OpenCL gives user events
  return found->second.modelled ? Phase::kRunning : Phase::kQueued;
}

CommandId Timeline::Last(QueueId id) const {
  const auto found = queues_.find(id);
  return found == queues_.end() ? 0 : found->second.last;
}

bool Timeline::Done(QueueId id, CommandId until) const {
  const auto found = queues_.find(id);
  return found == queues_.end() || found->second.open.empty() || *found->second.open.begin() > until;
}

std::vector<CommandId> Timeline::Open() const {
  std::vector<CommandId> open;
  for (const auto& [id, command] : commands_)
    if (command.queue != 0) open.push_back(id);
  return open;
}

bool Timeline::Computing(CommandId end) const {
  std::vector<CommandId> left;
  for (const auto& [id, command] : commands_)
    if (command.queue == 0) left.push_back(id);
  std::set<CommandId> held;  // by a user event
  while (!left.empty()) {
    const CommandId id = left.back();
    left.pop_back();
    const auto found = commands_.find(id);
    if (found == commands_.end() || !held.insert(id).second) continue;
    const Command& command = found->second;
    left.insert(left.end(), command.waiters.begin(), command.waiters.end());
    if (command.queue == 0) continue;
    const Queue& queue = queues_.at(command.queue);
    if (const auto next = queue.open.upper_bound(id); queue.in_order && next != queue.open.end()) left.push_back(*next);
  }
  return std::ranges::any_of(commands_, [&](const auto& one) {
    return one.first < end && one.second.queue != 0 && !one.second.computed && !held.contains(one.first);
  });
}

}  // namespace weir::emulator::cl
