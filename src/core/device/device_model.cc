// SPDX-License-Identifier: Apache-2.0
#include "core/device/device_model.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace weir::core {
namespace {

constexpr std::int64_t kFullClock = 1000;  // permille
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

constexpr std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Duration CopyTime(Bytes bytes, std::uint64_t bytes_per_s) {
  if (bytes_per_s == 0) return Duration{0};
  const auto ns = static_cast<unsigned __int128>(bytes.count) * kNsPerSecond / bytes_per_s;
  return Duration{static_cast<std::int64_t>(std::min<unsigned __int128>(ns, DeviceModel::kWorkMax.count()))};
}

}  // namespace

// -- What a command asks for -----------------------------------------------------------------------------------------

inline bool DeviceModel::Concurrent(std::size_t index) const {
  return config_.arbitration == Arbitration::kConcurrent && index == Index(EngineKind::kCompute);
}

inline bool DeviceModel::TimeSliced(std::size_t index) const {
  return config_.arbitration == Arbitration::kTimeSlice && index == Index(EngineKind::kCompute);
}

inline std::uint32_t DeviceModel::UnitsOf(std::size_t index) const {
  return Concurrent(index) ? std::clamp(config_.units, 1U, DeviceConfig::kUnitsMax) : 1;
}

inline std::uint32_t DeviceModel::UnitsWanted(const DeviceCommand& command) const {
  const std::uint32_t all = UnitsOf(Index(command.engine));
  return command.units == 0 ? all : std::min(command.units, all);
}

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

const DeviceModel::Queue* DeviceModel::Find(std::uint32_t queue) const {
  for (const Queue& each : queues_)
    if (each.id == queue && !each.empty()) return &each;
  return nullptr;
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

inline void DeviceModel::RemoveHead(Queue& queue) {
  const std::uint32_t removed = queue.first;
  queue.first = pending_[removed].next;
  --queue.size;
  pending_[removed].next = free_;
  free_ = removed;
}

/// Takes the head, which runs, out of its queue.
inline void DeviceModel::Pop(Queue& queue) {
  queue.head_runs = false;
  RemoveHead(queue);
  if (!queue.empty()) AddEligible(queue);
}

/// Empties a queue whose head does not run.
void DeviceModel::Clear(Queue& queue) {
  if (!queue.empty()) RemoveEligible(queue);
  while (!queue.empty()) RemoveHead(queue);
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
Duration DeviceModel::PartOf(const Engine& engine, std::size_t running, Duration span) const {
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

inline Instant DeviceModel::EndOf(const Engine& engine, const Running& running) const {
  const Pending& head = Head(queues_[running.queue]);
  const Instant begin = std::max(engine.progressed, stalled_until_) + head.delay_left;
  const std::int64_t work = running.units == 1 ? head.work_left : CeilDivide(head.work_left, running.units);
  if (begin >= engine.full_clock_at) return begin + Duration{CeilDivide(work, kFullClock)};
  const std::int64_t low = std::clamp<std::int64_t>(config_.ramp.low_permille, 1, kFullClock);
  const std::int64_t in_ramp = (engine.full_clock_at - begin).count() * low;
  if (work <= in_ramp) return begin + Duration{CeilDivide(work, low)};
  return engine.full_clock_at + Duration{CeilDivide(work - in_ramp, kFullClock)};
}

inline void DeviceModel::Plan(std::size_t index, Instant now) {
  const Engine& engine = engines_[index];
  Instant next = kNoEvent;
  for (const Running& running : engine.running) next = std::min(next, EndOf(engine, running));
  if (TimeSliced(index) && !engine.running.empty() && OthersWait(index))
    next = std::min(next, std::max(now, engine.turn_began + config_.slice));
  next_[index] = next;
}

inline void DeviceModel::PlanNext() { next_event_ = std::min({next_[0], next_[1], next_[2]}); }

// -- Which command runs ----------------------------------------------------------------------------------------------

inline void DeviceModel::AddEligible(const Queue& queue) {
  const std::size_t index = Index(Head(queue).command.engine);
  changed_[index] = true;
  std::vector<Eligible>& eligible = engines_[index].eligible;
  const Eligible added{Head(queue).sequence, static_cast<std::uint32_t>(&queue - queues_.data())};
  eligible.push_back(added);
  auto place = eligible.end() - 1;
  for (; place != eligible.begin() && (place - 1)->sequence > added.sequence; --place) *place = *(place - 1);
  *place = added;
}

void DeviceModel::RemoveEligible(const Queue& queue) {
  std::vector<Eligible>& eligible = engines_[Index(Head(queue).command.engine)].eligible;
  eligible.erase(std::ranges::find(eligible, Head(queue).sequence, &Eligible::sequence));
}

/// Whether a command of a client that does not run waits for the engine.
bool DeviceModel::OthersWait(std::size_t index) const {
  return std::ranges::any_of(engines_[index].eligible, [&](const Eligible& each) {
    return clients_[queues_[each.queue].client].id != engines_[index].client;
  });
}

/// The position in `eligible` of the command that begins next. There must be one.
inline std::size_t DeviceModel::Choose(std::size_t index, Instant now) const {
  const Engine& engine = engines_[index];
  if (!TimeSliced(index)) return 0;
  // The client whose turn it is goes first, then the others by number, starting after it.
  const bool turn_over = now >= engine.turn_began + config_.slice;
  const auto rank = [&](const Eligible& each) {
    const std::uint32_t distance = clients_[queues_[each.queue].client].id - engine.client;  // modulo 2^32
    return distance == 0 && turn_over ? std::numeric_limits<std::uint32_t>::max() : distance;
  };
  return static_cast<std::size_t>(std::ranges::min_element(engine.eligible, {}, rank) - engine.eligible.begin());
}

inline void DeviceModel::Begin(std::size_t index, std::uint32_t queue_index, std::uint32_t units, Instant now) {
  Engine& engine = engines_[index];
  Queue& queue = queues_[queue_index];
  Pending& head = Head(queue);
  const std::uint32_t client = clients_[queue.client].id;
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
}

/// Hands the units that are free to commands that can use them.
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
    const std::size_t chosen = Choose(index, now);
    const std::uint32_t queue = engine.eligible[chosen].queue;
    engine.eligible.erase(engine.eligible.begin() + static_cast<std::ptrdiff_t>(chosen));
    Begin(index, queue, std::min(UnitsWanted(Head(queues_[queue]).command), all - engine.units_used), now);
  }
}

/// Start and Plan for an engine that is idle and runs one command at a time, in order of submission.
inline void DeviceModel::StartFirst(std::size_t index, Instant now) {
  Engine& engine = engines_[index];
  const std::uint32_t queue = engine.eligible.front().queue;
  for (std::size_t i = 1; i < engine.eligible.size(); ++i) engine.eligible[i - 1] = engine.eligible[i];
  engine.eligible.pop_back();
  Begin(index, queue, 1, now);
  next_[index] = EndOf(engine, engine.running.front());
}

/// On engines that have changed.
inline void DeviceModel::StartAll(Instant now) {
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    if (!changed_[i]) continue;
    changed_[i] = false;
    if (engines_[i].eligible.empty() && engines_[i].running.empty()) {
      next_[i] = kNoEvent;
      continue;
    }
    if (engines_[i].running.empty() && !Concurrent(i) && !TimeSliced(i)) {
      StartFirst(i, now);
      continue;
    }
    Start(i, now);
    Plan(i, now);
  }
  PlanNext();
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

/// Written in place: a completion is most of what an event of a device moves.
inline void DeviceModel::Complete(const Pending& pending, Instant now, bool lost, DeviceCompletion& completion) {
  completion.command = pending.command;
  completion.submitted = pending.submitted;
  completion.began = pending.started ? pending.began : now;
  completion.ended = now;
  completion.busy = pending.busy;
  completion.lost = lost;
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
  Complete(head, now, /*lost=*/false, completed.emplace_back());
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
    Complete(Head(queue), now, /*lost=*/false, completed.emplace_back());
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
  // A turn that would have ended for these commands may go on.
  for (std::size_t i = 0; i < kEngineKinds; ++i)
    if (TimeSliced(i)) Plan(i, engines_[i].progressed);
  PlanNext();
}

void DeviceModel::Remove(Instant now, std::uint32_t client) {
  const auto of_client = [&](const Queue& queue) { return !queue.empty() && clients_[queue.client].id == client; };
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    Engine& engine = engines_[i];
    Progress(i, now);
    const bool ran = !engine.running.empty();
    changed_[i] = true;
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
    engines_[i].eligible.clear();
    engines_[i].idle_since = now;
    next_[i] = kNoEvent;
  }
  for (Queue& queue : queues_) {
    for (; !queue.empty(); RemoveHead(queue)) Complete(Head(queue), now, /*lost=*/true, completed.emplace_back());
    queue.head_runs = false;
  }
  PlanNext();
}

void DeviceModel::Reset(Instant now, std::vector<DeviceCompletion>& completed) { FailAll(now, completed); }

void DeviceModel::Lose(Instant now, std::vector<DeviceCompletion>& completed) {
  FailAll(now, completed);
  lost_ = true;
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
    if (clients_[queues_[engine.running[i].queue].client].id == client) busy += PartOf(engine, i, span);
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
