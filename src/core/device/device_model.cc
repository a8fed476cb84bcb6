// SPDX-License-Identifier: Apache-2.0
// Submissions, and the events of a device.
#include "core/device/device_model.h"

#include <algorithm>
#include <bit>

#include "core/device/device_steps.h"
#include "core/device/device_submit.h"

namespace weir::core {
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
  queue_mask_ = static_cast<std::uint32_t>(queue_hints_.size() - 1);
  return static_cast<std::uint32_t>(unused);
}

std::uint32_t DeviceModel::NewPending() {
  pending_.emplace_back();
  return static_cast<std::uint32_t>(pending_.size() - 1);
}

/// Takes the head, which runs, out of its queue.
inline void DeviceModel::Pop(Queue& queue) {
  queue.head_runs = false;
  RemoveHead(queue);
  if (!queue.empty()) AddEligible(queue);
}

// -- Events ----------------------------------------------------------------------------------------------------------

bool DeviceModel::Submit(Instant now, const DeviceCommand& command) { return SubmitHere(now, command); }

void DeviceModel::Advance(Instant now, std::vector<DeviceCompletion>& completed) {
  while (next_event_ <= now) {
    const Instant at = next_event_;
    for (std::size_t i = 0; i < kEngineKinds; ++i) {
      if (next_[i] > at) continue;
      if (Fifo(i)) {
        Finish(i, at, completed);
        continue;
      }
      Progress(i, at);
      Complete(i, at, completed);
      EndTurn(i, at);
    }
    StartChanged(at);
  }
}

void DeviceModel::StartAll(Instant now) { StartChanged(now); }

/// Progress and Complete where an event can only be the end of the one command that runs.
WEIR_STEP void DeviceModel::Finish(std::size_t index, Instant now, std::vector<DeviceCompletion>& completed) {
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
  NoteChanged(index);
  Pop(queue);
}

inline void DeviceModel::Complete(std::size_t index, Instant now, std::vector<DeviceCompletion>& completed) {
  Engine& engine = engines_[index];
  NoteChanged(index);
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
