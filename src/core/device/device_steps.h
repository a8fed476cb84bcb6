// SPDX-License-Identifier: Apache-2.0
// Steps of a device that its events (device_model.cc) and its control (device_control.cc) share. They are inline, since
// they are most of what the simulator executes for a device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/device/device_model.h"

/// Forces inlining. By its own estimate the compiler would leave calls between these functions, and a call costs about
/// a tenth of the called function.
#define WEIR_STEP [[gnu::always_inline]] inline

namespace weir::core {

inline constexpr std::int64_t kFullClock = 1000;  // permille

constexpr std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// -- Units and queues ------------------------------------------------------------------------------------------------

inline bool DeviceModel::Concurrent(std::size_t index) const {
  return config_.arbitration == Arbitration::kConcurrent && index == Index(EngineKind::kCompute);
}

inline bool DeviceModel::TimeSliced(std::size_t index) const {
  return config_.arbitration == Arbitration::kTimeSlice && index == Index(EngineKind::kCompute);
}

inline bool DeviceModel::Fifo(std::size_t index) const {
  return index != Index(EngineKind::kCompute) || config_.arbitration == Arbitration::kFifo;
}

inline std::uint32_t DeviceModel::UnitsOf(std::size_t index) const {
  return Concurrent(index) ? std::clamp(config_.units, 1U, DeviceConfig::kUnitsMax) : 1;
}

inline std::uint32_t DeviceModel::UnitsWanted(const DeviceCommand& command) const {
  const std::uint32_t all = UnitsOf(Index(command.engine));
  return command.units == 0 ? all : std::min(command.units, all);
}

WEIR_STEP void DeviceModel::RemoveHead(Queue& queue) {
  const std::uint32_t removed = queue.first;
  queue.first = pending_[removed].next;
  --queue.size;
  pending_[removed].next = free_;
  free_ = removed;
}

inline void DeviceModel::Complete(const Pending& pending, Instant now, bool lost,
                                  std::vector<DeviceCompletion>& completed) {
  completed.emplace_back(pending.command, pending.submitted, pending.started ? pending.began : now, now, pending.busy,
                         lost);
}

// -- Progress --------------------------------------------------------------------------------------------------------

/// Work of one unit in a span: at the low clock until the ramp ends, at the full clock after it.
inline std::int64_t DeviceModel::WorkDone(const Engine& engine, Instant from, Instant to) const {
  const std::int64_t all = (to - from).count() * kFullClock;
  if (from >= engine.full_clock_at) return all;
  return all - (std::min(to, engine.full_clock_at) - from).count() *
                   (kFullClock - std::clamp<std::int64_t>(config_.ramp.low_permille, 1, kFullClock));
}

/// How much of a span the running command still spends on its switch and start delay.
inline Duration DeviceModel::DelayIn(const Engine& engine, Duration span) const {
  return std::min(span, Head(queues_[engine.running.front().queue]).delay_left);
}

/// The part of a span that is charged to one of the commands that share an engine, by their units. The parts add up to
/// the span exactly: each is a difference of rounded running sums.
inline Duration DeviceModel::PartOf(const Engine& engine, std::size_t running, Duration span) const {
  if (engine.running.size() == 1) return span;
  std::int64_t before = 0, all = 0;
  for (std::size_t i = 0; i < engine.running.size(); ++i) {
    if (i < running) before += engine.running[i].units;
    all += engine.running[i].units;
  }
  const auto up_to = [&](std::int64_t units) {
    return static_cast<std::int64_t>(static_cast<__int128>(span.count()) * units / all);
  };
  return Duration{up_to(before + engine.running[running].units) - up_to(before)};
}

inline void DeviceModel::Progress(std::size_t index, Instant to) {
  Engine& engine = engines_[index];
  Instant from = std::max(engine.progressed, stalled_until_);
  engine.progressed = std::max(engine.progressed, to);
  if (engine.running.empty() || from >= to) return;
  const Duration delay = DelayIn(engine, to - from);
  if (delay > Duration{0}) {
    Head(queues_[engine.running.front().queue]).delay_left -= delay;
    engine.switching += delay;
    from += delay;
  }
  const std::int64_t work = WorkDone(engine, from, to);
  engine.busy += to - from;
  if (engine.running.size() == 1) {
    Queue& queue = queues_[engine.running.front().queue];
    Pending& head = Head(queue);
    head.work_left = std::max<std::int64_t>(0, head.work_left - work * engine.running.front().units);
    head.busy += to - from;
    clients_[queue.client].busy[index] += to - from;
    return;
  }
  for (std::size_t i = 0; i < engine.running.size(); ++i) {
    Queue& queue = queues_[engine.running[i].queue];
    const Duration part = PartOf(engine, i, to - from);
    Head(queue).work_left = std::max<std::int64_t>(0, Head(queue).work_left - work * engine.running[i].units);
    Head(queue).busy += part;
    clients_[queue.client].busy[index] += part;
  }
}

WEIR_STEP Instant DeviceModel::EndOf(const Engine& engine, const Pending& head, std::uint32_t units) const {
  const Instant begin = std::max(engine.progressed, stalled_until_) + head.delay_left;
  const std::int64_t work = units == 1 ? head.work_left : CeilDivide(head.work_left, units);
  if (begin >= engine.full_clock_at) return begin + Duration{CeilDivide(work, kFullClock)};
  const std::int64_t low = std::clamp<std::int64_t>(config_.ramp.low_permille, 1, kFullClock);
  const std::int64_t in_ramp = (engine.full_clock_at - begin).count() * low;
  if (work <= in_ramp) return begin + Duration{CeilDivide(work, low)};
  return engine.full_clock_at + Duration{CeilDivide(work - in_ramp, kFullClock)};
}

inline void DeviceModel::Plan(std::size_t index, Instant now) {
  const Engine& engine = engines_[index];
  Instant next = kNoEvent;
  for (const Running& running : engine.running)
    next = std::min(next, EndOf(engine, Head(queues_[running.queue]), running.units));
  if (TimeSliced(index) && !engine.running.empty() && OthersWait(index))
    next = std::min(next, std::max(now, engine.turn_began + config_.slice));
  next_[index] = next;
}

inline void DeviceModel::PlanNext() { next_event_ = std::min({next_[0], next_[1], next_[2]}); }

// -- Which command runs ----------------------------------------------------------------------------------------------

WEIR_STEP void DeviceModel::Waiting::Add(Eligible added) {
  if (first_ > 0 && all_.size() == all_.capacity()) {
    all_.erase(all_.begin(), all_.begin() + first_);
    first_ = 0;
  }
  all_.push_back(added);
  auto place = all_.end() - 1;
  for (; place != all_.begin() + first_ && (place - 1)->sequence > added.sequence; --place) *place = *(place - 1);
  *place = added;
}

WEIR_STEP void DeviceModel::Waiting::RemoveFirst() {
  ++first_;
  if (empty()) Clear();
}

inline void DeviceModel::Waiting::Clear() {
  all_.clear();
  first_ = 0;
}

WEIR_STEP void DeviceModel::AddEligible(const Queue& queue) {
  const std::size_t index = Index(Head(queue).command.engine);
  NoteChanged(index);
  engines_[index].eligible.Add({Head(queue).sequence, static_cast<std::uint32_t>(&queue - queues_.data())});
}

/// Whether a command of a client that does not run waits for the engine.
inline bool DeviceModel::OthersWait(std::size_t index) const {
  return std::ranges::any_of(engines_[index].eligible, [&](const Eligible& each) {
    return queues_[each.queue].client_id != engines_[index].client;
  });
}

/// The command that begins next. At least one must wait.
inline auto DeviceModel::Choose(std::size_t index, Instant now) const -> Waiting::Place {
  const Engine& engine = engines_[index];
  if (!TimeSliced(index)) return engine.eligible.begin();
  // The client whose turn it is goes first, then the other clients by number, beginning with the number after it.
  const bool turn_over = now >= engine.turn_began + config_.slice;
  const auto rank = [&](const Eligible& each) -> std::uint64_t {
    const std::uint32_t distance = queues_[each.queue].client_id - engine.client;  // modulo 2^32
    return distance == 0 && turn_over ? std::uint64_t{1} << 32 : distance;         // after all others
  };
  return std::ranges::min_element(engine.eligible, {}, rank);
}

/// Begins the head of a queue on `units` of an engine, with its switch and its start delay. Returns that command.
WEIR_STEP const DeviceModel::Pending& DeviceModel::Begin(std::size_t index, std::uint32_t queue_index,
                                                         std::uint32_t units, Instant now) {
  Engine& engine = engines_[index];
  Queue& queue = queues_[queue_index];
  Pending& head = Head(queue);
  const std::uint32_t client = queue.client_id;
  const bool compute = index == Index(EngineKind::kCompute);
  if (engine.running.empty() && compute && config_.ramp.idle > Duration{0} &&
      now - engine.idle_since >= config_.ramp.idle)
    engine.full_clock_at = std::max(now, stalled_until_) + config_.ramp.rise;
  if (compute && !Concurrent(index)) {
    if (engine.client != client) {
      head.delay_left += config_.switch_cost;
      engine.turn_began = now + config_.switch_cost;
    } else if (now >= engine.turn_began + config_.slice) {
      engine.turn_began = now;
    }
    if (!head.started && start_delay_) head.delay_left += start_delay_(head.command);
  }
  if (!head.started) head.began = std::max(now, stalled_until_);
  head.started = true;
  queue.head_runs = true;
  engine.client = client;
  engine.progressed = std::max(engine.progressed, now);
  engine.running.push_back({queue_index, units});
  engine.units_used += units;
  return head;
}

/// Gives free units to commands that can use them.
inline void DeviceModel::Start(std::size_t index, Instant now) {
  Engine& engine = engines_[index];
  const std::uint32_t all = UnitsOf(index);
  if (engine.units_used >= all) return;
  // Commands that run on fewer units than they can use come first.
  if (!engine.running.empty()) {
    Progress(index, now);
    for (Running& running : engine.running) {
      const std::uint32_t more =
          std::min(UnitsWanted(Head(queues_[running.queue]).command) - running.units, all - engine.units_used);
      running.units += more;
      engine.units_used += more;
    }
  }
  while (engine.units_used < all && !engine.eligible.empty()) {
    const auto chosen = Choose(index, now);
    const std::uint32_t queue = chosen->queue;
    engine.eligible.Remove(chosen);
    Begin(index, queue, std::min(UnitsWanted(Head(queues_[queue]).command), all - engine.units_used), now);
  }
}

/// Begin and Plan for an idle engine that runs its commands one after another (Fifo).
WEIR_STEP void DeviceModel::StartNow(std::size_t index, std::uint32_t queue, Instant now) {
  const Pending& begun = Begin(index, queue, 1, now);
  next_[index] = EndOf(engines_[index], begun, 1);
}

/// StartNow for the first command that waits.
WEIR_STEP void DeviceModel::StartFirst(std::size_t index, Instant now) {
  Engine& engine = engines_[index];
  const std::uint32_t queue = engine.eligible.front().queue;
  engine.eligible.RemoveFirst();
  StartNow(index, queue, now);
}

/// Starts commands on the engines that have changed, and computes the next event.
WEIR_STEP void DeviceModel::StartChanged(Instant now) {
  for (; changed_ != 0; changed_ &= changed_ - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(changed_));
    if (engines_[i].eligible.empty() && engines_[i].running.empty()) {
      next_[i] = kNoEvent;
    } else if (engines_[i].running.empty() && Fifo(i)) {
      StartFirst(i, now);
    } else {
      Start(i, now);
      Plan(i, now);
    }
  }
  PlanNext();
}

}  // namespace weir::core
