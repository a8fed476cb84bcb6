// SPDX-License-Identifier: Apache-2.0
// Submissions, and the events of a device.
#include "core/device/device_model.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "core/device/device_steps.h"

namespace weir::core {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

Duration CopyTime(Bytes bytes, std::uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return Duration{0};
  const auto ns = static_cast<unsigned __int128>(bytes.count) * kNsPerSecond / bytes_per_s;
  return Duration{static_cast<std::int64_t>(std::min<unsigned __int128>(ns, DeviceModel::kWorkMax.count()))};
}

}  // namespace

// -- What a command asks for -----------------------------------------------------------------------------------------

inline std::int64_t DeviceModel::WorkOf(const DeviceCommand& command) const {
  Duration time{};
  switch (command.engine) {
    case EngineKind::kCompute: time = config_.launch_overhead + command.work; break;
    case EngineKind::kCopyIn: time = config_.link_latency + CopyTime(command.bytes, config_.in_bytes_per_s); break;
    case EngineKind::kCopyOut: time = config_.link_latency + CopyTime(command.bytes, config_.out_bytes_per_s); break;
  }
  return std::clamp(time, Duration{0}, kWorkMax).count() * kFullClock * UnitsWanted(command);
}

// -- Queues and clients ----------------------------------------------------------------------------------------------

std::uint32_t DeviceModel::ClientFor(std::uint32_t client) {
  std::size_t unused = clients_.size();
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (!clients_[i].removed && clients_[i].id == client) return static_cast<std::uint32_t>(i);
    if (clients_[i].removed) unused = i;
  }
  if (unused == clients_.size()) clients_.emplace_back();
  clients_[unused] = Client{.id = client};
  return static_cast<std::uint32_t>(unused);
}

/// The entry of a queue, or one for it that is not in use.
std::uint32_t DeviceModel::EntryFor(std::uint32_t queue) {
  std::size_t unused = queues_.size();
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const bool free = queues_[i].unused || (queues_[i].empty() && queues_.size() >= kQueuesKept);
    if (free) unused = i;
    if (!queues_[i].unused && queues_[i].id == queue) return static_cast<std::uint32_t>(i);
  }
  if (unused == queues_.size()) queues_.emplace_back();
  queues_[unused].id = queue;
  queues_[unused].client = kNone;
  queues_[unused].unused = false;
  if (queue_hints_.size() < queues_.size()) queue_hints_.resize(std::bit_ceil(queues_.size()));
  return static_cast<std::uint32_t>(unused);
}

inline std::uint32_t DeviceModel::QueueFor(const DeviceCommand& command) {
  const auto hint = [&] { return command.queue & (queue_hints_.size() - 1); };
  std::uint32_t found = queue_hints_.empty() ? kNone : queue_hints_[hint()];
  if (found >= queues_.size() || queues_[found].id != command.queue || queues_[found].unused) {
    found = EntryFor(command.queue);
    queue_hints_[hint()] = found;
  }
  Queue& queue = queues_[found];
  if (!queue.empty()) return found;
  if (queue.client >= clients_.size() || clients_[queue.client].id != command.client || clients_[queue.client].removed)
    queue.client = ClientFor(command.client);
  return found;
}

/// A new entry at the end of a queue. All of it but `next` is to be written.
inline DeviceModel::Pending& DeviceModel::Append(Queue& queue) {
  std::uint32_t added = free_;
  if (added == kNone) {
    added = static_cast<std::uint32_t>(pending_.size());
    pending_.emplace_back();
  } else {
    free_ = pending_[added].next;
  }
  (queue.empty() ? queue.first : pending_[queue.last].next) = added;
  queue.last = added;
  ++queue.size;
  return pending_[added];
}

/// Takes the head, which runs, out of its queue.
inline void DeviceModel::Pop(Queue& queue) {
  queue.head_runs = false;
  RemoveHead(queue);
  if (!queue.empty()) AddEligible(queue);
}

// -- Events ----------------------------------------------------------------------------------------------------------

bool DeviceModel::Submit(Instant now, const DeviceCommand& command) {
  WEIR_CHECK(now <= next_event_);
  if (lost_) return false;
  const std::uint32_t number = QueueFor(command);
  Queue& queue = queues_[number];
  if (config_.queue_depth > 0 && queue.size >= config_.queue_depth) return false;
  Pending& added = Append(queue);
  added.command = command;
  added.sequence = next_sequence_++;
  added.submitted = added.began = now;
  added.work_left = WorkOf(command);
  added.delay_left = added.busy = Duration{0};
  added.started = false;
  if (queue.size > 1) return true;
  const std::size_t index = Index(command.engine);
  if (engines_[index].running.empty()) {  // then no command waits for the engine either
    Begin(index, number, UnitsWanted(command), now);
    Plan(index, now);
    PlanNext();
    return true;
  }
  AddEligible(queue);
  if (engines_[index].units_used < UnitsOf(index) || TimeSliced(index)) StartAll(now);
  return true;
}

void DeviceModel::Advance(Instant now, std::vector<DeviceCompletion>& completed) {
  while (next_event_ <= now) {
    const Instant at = next_event_;
    for (std::size_t i = 0; i < kEngineKinds; ++i) {
      if (next_[i] > at) continue;
      if (!Concurrent(i) && !TimeSliced(i)) {
        Finish(i, at, completed);
        continue;
      }
      Progress(i, at);
      Complete(i, at, completed);
      EndTurn(i, at);
    }
    StartAll(at);
  }
}

/// Progress and Complete where an event can only be the end of the one command that runs.
inline void DeviceModel::Finish(std::size_t index, Instant now, std::vector<DeviceCompletion>& completed) {
  Engine& engine = engines_[index];
  Queue& queue = queues_[engine.running.front().queue];
  Pending& head = Head(queue);
  const Duration busy = now - std::max(engine.progressed, stalled_until_) - head.delay_left;
  engine.progressed = engine.idle_since = now;
  engine.switching += head.delay_left;
  engine.busy += busy;
  clients_[queue.client].busy[index] += busy;
  head.busy += busy;
  Complete(head, now, /*lost=*/false, completed);
  engine.running.clear();
  engine.units_used = 0;
  changed_[index] = true;
  Pop(queue);
}

inline void DeviceModel::Complete(std::size_t index, Instant now, std::vector<DeviceCompletion>& completed) {
  Engine& engine = engines_[index];
  changed_[index] = true;
  std::size_t left = 0;
  for (std::size_t i = 0; i < engine.running.size(); ++i) {
    const Running running = engine.running[i];
    Queue& queue = queues_[running.queue];
    if (Head(queue).work_left > 0 || Head(queue).delay_left > Duration{0}) {
      engine.running[left++] = running;
      continue;
    }
    Complete(Head(queue), now, /*lost=*/false, completed);
    engine.units_used -= running.units;
    Pop(queue);
  }
  engine.running.resize(left);
  if (left == 0) engine.idle_since = now;
}

void DeviceModel::EndTurn(std::size_t index, Instant now) {
  Engine& engine = engines_[index];
  if (!TimeSliced(index) || engine.running.empty() || now < engine.turn_began + config_.slice || !OthersWait(index))
    return;
  Queue& queue = queues_[engine.running.front().queue];
  queue.head_runs = false;
  AddEligible(queue);
  engine.running.clear();
  engine.units_used = 0;
}

}  // namespace weir::core
