// SPDX-License-Identifier: Apache-2.0
// Operations on a device other than submissions and its events: clients that leave, faults, memory, and ground truth.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device/device_model.h"
#include "core/device/device_steps.h"

namespace weir::core {

// -- Queues that are emptied, and faults -----------------------------------------------------------------------------

void DeviceModel::RemoveEligible(const Queue& queue) {
  Waiting& eligible = engines_[Index(Head(queue).command.engine)].eligible;
  eligible.Remove(std::ranges::find(eligible, Head(queue).sequence, &Eligible::sequence));
}

/// Empties a queue whose head does not run.
void DeviceModel::Clear(Queue& queue) {
  if (!queue.empty()) RemoveEligible(queue);
  while (!queue.empty()) RemoveHead(queue);
}

void DeviceModel::Forget(std::uint32_t queue) {
  for (Queue& each : queues_) {
    if (each.id != queue || each.empty()) continue;
    if (!Head(each).started) {
      Clear(each);
      continue;
    }
    const std::uint32_t begun = each.first;
    each.first = Head(each).next;
    for (--each.size; !each.empty();) RemoveHead(each);
    each.first = each.last = begun;
    each.size = 1;
  }
  // A turn would have ended because these commands waited. It may go on now.
  for (std::size_t i = 0; i < kEngineKinds; ++i)
    if (TimeSliced(i)) Plan(i, engines_[i].progressed);
  PlanNext();
}

void DeviceModel::Remove(Instant now, std::uint32_t client) {
  const auto of_client = [&](const Queue& queue) { return !queue.empty() && queue.client_id == client; };
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    Engine& engine = engines_[i];
    Progress(i, now);
    const bool ran = !engine.running.empty();
    NoteChanged(i);
    std::erase_if(engine.running, [&](const Running& running) {
      Queue& queue = queues_[running.queue];
      if (!of_client(queue)) return false;
      engine.units_used -= running.units;
      queue.head_runs = false;
      AddEligible(queue);  // until the queue is cleared
      return true;
    });
    if (ran && engine.running.empty()) engine.idle_since = now;
  }
  for (Queue& queue : queues_) {
    if (of_client(queue)) Clear(queue);
    queue.unused = queue.unused || (queue.empty() && queue.client < clients_.size() &&
                                    !clients_[queue.client].removed && clients_[queue.client].id == client);
  }
  for (Client& each : clients_) {
    if (each.removed || each.id != client) continue;
    for (std::size_t i = 0; i < kEngineKinds; ++i) engines_[i].busy_of_removed += each.busy[i];
    memory_used_.count -= each.memory.count;
    each = Client{.removed = true};
  }
  StartAll(now);
}

void DeviceModel::Stall(Instant now, Instant until) {
  for (std::size_t i = 0; i < kEngineKinds; ++i) Progress(i, now);
  stalled_until_ = std::max(stalled_until_, until);
  for (std::size_t i = 0; i < kEngineKinds; ++i) Plan(i, now);
  PlanNext();
}

void DeviceModel::FailAll(Instant now, std::vector<DeviceCompletion>& completed) {
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    Progress(i, now);
    engines_[i].running.clear();
    engines_[i].units_used = 0;
    engines_[i].eligible.Clear();
    engines_[i].idle_since = now;
    next_[i] = kNoEvent;
  }
  for (Queue& queue : queues_) {
    for (; !queue.empty(); RemoveHead(queue)) Complete(Head(queue), now, /*lost=*/true, completed);
    queue.head_runs = false;
  }
  PlanNext();
}

void DeviceModel::Reset(Instant now, std::vector<DeviceCompletion>& completed) {
  FailAll(now, completed);
  stalled_until_ = std::min(stalled_until_, now);
}

void DeviceModel::Lose(Instant now, std::vector<DeviceCompletion>& completed) {
  FailAll(now, completed);
  lost_ = true;
}

const DeviceModel::Queue* DeviceModel::Find(std::uint32_t queue) const {
  for (const Queue& each : queues_)
    if (each.id == queue && !each.empty()) return &each;
  return nullptr;
}

// -- Memory and ground truth -----------------------------------------------------------------------------------------

bool DeviceModel::Allocate(std::uint32_t client, Bytes bytes) {
  if (lost_ || bytes.count > config_.memory.count - memory_used_.count) return false;
  clients_[ClientFor(client)].memory.count += bytes.count;
  memory_used_.count += bytes.count;
  return true;
}

void DeviceModel::Free(std::uint32_t client, Bytes bytes) {
  for (Client& each : clients_) {
    if (each.removed || each.id != client) continue;
    const std::uint64_t freed = std::min(bytes.count, each.memory.count);
    each.memory.count -= freed;
    memory_used_.count -= freed;
  }
}

Duration DeviceModel::Busy(EngineKind kind, Instant now) const {
  const Engine& engine = engines_[Index(kind)];
  const Instant from = std::max(engine.progressed, stalled_until_);
  if (engine.running.empty() || from >= now) return engine.busy;
  return engine.busy + (now - from) - DelayIn(engine, now - from);
}

Duration DeviceModel::BusyOf(std::uint32_t client, EngineKind kind, Instant now) const {
  const Engine& engine = engines_[Index(kind)];
  Duration busy{};
  for (const Client& each : clients_)
    if (!each.removed && each.id == client) busy += each.busy[Index(kind)];
  const Instant from = std::max(engine.progressed, stalled_until_);
  if (engine.running.empty() || from >= now) return busy;
  const Duration span = (now - from) - DelayIn(engine, now - from);
  for (std::size_t i = 0; i < engine.running.size(); ++i)
    if (queues_[engine.running[i].queue].client_id == client) busy += PartOf(engine, i, span);
  return busy;
}

Bytes DeviceModel::MemoryOf(std::uint32_t client) const {
  for (const Client& each : clients_)
    if (!each.removed && each.id == client) return each.memory;
  return {};
}

std::size_t DeviceModel::Outstanding(std::uint32_t queue) const {
  const Queue* found = Find(queue);
  return found == nullptr ? 0 : found->size;
}

bool DeviceModel::Runs(std::uint32_t queue) const {
  const Queue* found = Find(queue);
  return found != nullptr && found->head_runs;
}

}  // namespace weir::core
