// SPDX-License-Identifier: Apache-2.0
// A submission to a device, which is compiled into its caller. Tests of what the caller knows of the command are then
// optimised away, and the command goes from registers to its place. The simulator submits one for each batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "core/device/device_model.h"
#include "core/device/device_steps.h"

namespace weir::core {

// -- The work of a command -------------------------------------------------------------------------------------------

inline Duration CopyTime(Bytes bytes, std::uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return Duration{0};
  const auto ns = static_cast<unsigned __int128>(bytes.count) * 1'000'000'000 / bytes_per_s;
  return Duration{static_cast<std::int64_t>(std::min<unsigned __int128>(ns, DeviceModel::kWorkMax.count()))};
}

WEIR_STEP std::int64_t DeviceModel::WorkOf(const DeviceCommand& command) const {
  Duration time{};
  switch (command.engine) {
    case EngineKind::kCompute: time = config_.launch_overhead + command.work; break;
    case EngineKind::kCopyIn: time = config_.link_latency + CopyTime(command.bytes, config_.in_bytes_per_s); break;
    case EngineKind::kCopyOut: time = config_.link_latency + CopyTime(command.bytes, config_.out_bytes_per_s); break;
  }
  return std::clamp(time, Duration{0}, kWorkMax).count() * kFullClock * UnitsWanted(command);
}

// -- Queues ----------------------------------------------------------------------------------------------------------

WEIR_STEP std::uint32_t DeviceModel::QueueFor(const DeviceCommand& command) {
  std::uint32_t found = queues_.empty() ? kNone : queue_hints_[command.queue & queue_mask_];
  if (found == kNone || queues_[found].id != command.queue || queues_[found].unused) {
    found = EntryFor(command.queue);
    queue_hints_[command.queue & queue_mask_] = found;
  }
  Queue& queue = queues_[found];
  if (!queue.empty()) return found;
  if (queue.client == kNone || queue.client_id != command.client) {
    queue.client = ClientFor(command.client);
    queue.client_id = command.client;
  }
  return found;
}

/// A new entry at the end of a queue. The caller has to set all members except `next`.
WEIR_STEP DeviceModel::Pending& DeviceModel::Append(Queue& queue) {
  std::uint32_t added = free_;
  if (added == kNone) {
    added = NewPending();
  } else {
    free_ = pending_[added].next;
  }
  (queue.empty() ? queue.first : pending_[queue.last].next) = added;
  queue.last = added;
  ++queue.size;
  return pending_[added];
}

// -- Submission ------------------------------------------------------------------------------------------------------

WEIR_STEP bool DeviceModel::SubmitHere(Instant now, const DeviceCommand& command) {
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
    if (Fifo(index)) {
      StartNow(index, number, now);
    } else {
      Begin(index, number, UnitsWanted(command), now);
      Plan(index, now);
    }
    PlanNext();
    return true;
  }
  AddEligible(queue);
  if (engines_[index].units_used < UnitsOf(index) || TimeSliced(index)) StartAll(now);
  return true;
}

}  // namespace weir::core
