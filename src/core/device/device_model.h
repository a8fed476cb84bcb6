// SPDX-License-Identifier: Apache-2.0
// A device with command queues, engines and memory, as a pure model. The simulator plays it in virtual time; the
// emulator plays the same code in real time.
//
//             ┌ queue: ■ ■ ■ ┐                   ┌ compute   fifo, time-slice or concurrent
//   client A ─┤              ├─ head of a queue ─┼ copy in   always fifo
//             └ queue: ■ ■   ┘  is eligible      └ copy out  always fifo
//   client B ── queue: ■ ■ ■
//
//   a command:  waits ──▶ runs ──▶ completed
//                 ▲         │ a turn ends (time-slice)
//                 └─────────┘
//
// Laws (device_laws_test.cc):
// - Commands of one queue complete in the order of submission, and a command runs only when those before it completed.
// - An engine is never idle while a command is eligible for it, except during a stall.
// - The busy times of all clients on an engine add up to the busy time of that engine, which never exceeds the time
//   that has passed.
// - A command that ran has been given exactly its work.
// - Allocated memory never exceeds the size of the device.
// - The result does not depend on how often Advance is called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/units.h"
#include "core/device/device_config.h"

namespace weir::core {

/// One command. The submitter chooses the numbers of clients and queues; a queue belongs to one client.
struct DeviceCommand {
  std::uint32_t client = 0;
  std::uint32_t queue = 0;
  std::uint64_t tag = 0;  // The submitter's; returned with the completion.
  EngineKind engine = EngineKind::kCompute;
  Duration work{};          // Compute: time at full clock with all of its units.
  Bytes bytes{};            // Copies: what is transferred. The model computes the time.
  std::uint32_t units = 0;  // kConcurrent: units that it can use. 0: all of the device's.
};

struct DeviceCompletion {
  DeviceCompletion() = default;
  /// Sets all members at once, so that a vector constructs the object in place without clearing it first.
  DeviceCompletion(const DeviceCommand& of, Instant submitted_at, Instant began_at, Instant ended_at, Duration took,
                   bool is_lost)
      : command(of), submitted(submitted_at), began(began_at), ended(ended_at), busy(took), lost(is_lost) {}
  DeviceCommand command;
  Instant submitted, began, ended;  // `began` to `ended` can include turns of other clients, as on real devices.
  Duration busy{};                  // Engine time of the command itself.
  bool lost = false;                // It failed, since the device was reset or lost.
};

class DeviceModel {
 public:
  static constexpr Instant kNoEvent = Instant::max();
  static constexpr Duration kWorkMax = seconds(3600);  // Longer commands are shortened to this.

  explicit DeviceModel(const DeviceConfig& config) : config_(config) {}

  /// Queues a command. False: its queue is full, or the device is lost. `now` must not be earlier than in any call
  /// before; the events up to `now` must have been taken with Advance.
  bool Submit(Instant now, const DeviceCommand& command);
  /// The same, compiled into its caller (device_submit.h).
  bool SubmitHere(Instant now, const DeviceCommand& command);
  /// When Advance has something to do. kNoEvent: not before the next submission.
  [[nodiscard]] Instant NextEvent() const { return next_event_; }
  /// Plays all events up to `now` and appends the completions in order of time.
  void Advance(Instant now, std::vector<DeviceCompletion>& completed);

  /// Drops the commands of a queue that have not begun. A command that runs, or that was preempted, goes on.
  void Forget(std::uint32_t queue);
  /// Drops all commands of a client, running ones included, and its memory.
  void Remove(Instant now, std::uint32_t client);
  /// No engine makes progress until `until`.
  void Stall(Instant now, Instant until);
  /// All commands complete now, as lost. A stall ends.
  void Reset(Instant now, std::vector<DeviceCompletion>& completed);
  /// Like Reset; the device accepts no command afterwards.
  void Lose(Instant now, std::vector<DeviceCompletion>& completed);

  /// Takes memory for a client. False: the device has less memory free, or is lost.
  bool Allocate(std::uint32_t client, Bytes bytes);
  void Free(std::uint32_t client, Bytes bytes);

  /// Sets a delay of commands at their start, after the switch, during which they hold the engine. To be called before
  /// the first command.
  void SetStartDelay(std::function<Duration(const DeviceCommand&)> delay) { start_delay_ = std::move(delay); }

  // Ground truth at `now`, which must not be later than the next event. Busy includes clients that were removed.
  [[nodiscard]] Duration Busy(EngineKind engine, Instant now) const;
  [[nodiscard]] Duration BusyOf(std::uint32_t client, EngineKind engine, Instant now) const;
  [[nodiscard]] Duration BusyOfRemoved(EngineKind engine) const { return engines_[Index(engine)].busy_of_removed; }
  /// Time of switches and start delays that are over; not part of Busy.
  [[nodiscard]] Duration Switching(EngineKind engine) const { return engines_[Index(engine)].switching; }
  [[nodiscard]] Bytes MemoryOf(std::uint32_t client) const;
  [[nodiscard]] Bytes memory_used() const { return memory_used_; }
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] bool running(EngineKind engine) const { return !engines_[Index(engine)].running.empty(); }
  /// Commands of a queue that have not completed.
  [[nodiscard]] std::size_t Outstanding(std::uint32_t queue) const;
  /// Whether a command of this queue runs now.
  [[nodiscard]] bool Runs(std::uint32_t queue) const;
  [[nodiscard]] const DeviceConfig& config() const { return config_; }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Pending {
    DeviceCommand command;
    std::uint64_t sequence = 0;
    Instant submitted{}, began{};
    std::int64_t work_left = 0;  // in units × permille of the clock × ns
    Duration delay_left{};       // switch and start delay; none while commands share the engine
    Duration busy{};
    bool started = false;
    std::uint32_t next = kNone;  // the next entry of its queue, or of the free list
  };
  /// Commands of one queue in order. An entry keeps its number while it is empty, until there are kQueuesKept entries
  /// or its client is removed; then another queue can use it.
  struct Queue {
    std::uint32_t id = 0;
    std::uint32_t client = kNone;               // index in clients_; kNone until the first command
    std::uint32_t client_id = 0;                // of that entry
    std::uint32_t first = kNone, last = kNone;  // in pending_
    std::uint32_t size = 0;
    bool head_runs = false;
    bool unused = false;  // the entry belongs to no queue
    [[nodiscard]] bool empty() const { return size == 0; }
  };
  struct Running {
    std::uint32_t queue = 0;  // index in queues_
    std::uint32_t units = 0;
  };
  /// A queue whose head waits for an engine.
  struct Eligible {
    std::uint64_t sequence = 0;
    std::uint32_t queue = 0;  // index in queues_
  };
  /// Eligible queues, ordered by sequence. Removing the first one moves no others.
  class Waiting {
   public:
    using Place = std::vector<Eligible>::const_iterator;
    [[nodiscard]] bool empty() const { return begin() == end(); }
    [[nodiscard]] Place begin() const { return all_.begin() + first_; }
    [[nodiscard]] Place end() const { return all_.end(); }
    [[nodiscard]] const Eligible& front() const { return all_[static_cast<std::size_t>(first_)]; }
    void Add(Eligible added);
    void RemoveFirst();
    void Remove(Place which) { all_.erase(which); }
    void Clear();

   private:
    std::vector<Eligible> all_;
    std::ptrdiff_t first_ = 0;  // entries before this one were removed
  };
  /// The state of an engine at `progressed`. From then until its entry in `next_`, its commands keep their units.
  struct Engine {
    std::vector<Running> running;  // in order of start
    std::uint32_t client = ~0U;    // the client whose command began last
    std::uint32_t units_used = 0;
    Waiting eligible;
    Instant progressed{};
    Instant turn_began{};
    Instant idle_since{};
    Instant full_clock_at{};  // until then the clock is low
    Duration busy{}, switching{};
    Duration busy_of_removed{};
  };
  struct Client {
    std::uint32_t id = 0;
    std::array<Duration, kEngineKinds> busy{};
    Bytes memory{};
    bool removed = false;
  };
  /// With this many entries or more, the entry of an empty queue is reused for a new queue.
  static constexpr std::size_t kQueuesKept = 64;
  static constexpr std::size_t Index(EngineKind kind) { return static_cast<std::size_t>(kind); }
  [[nodiscard]] bool Concurrent(std::size_t index) const;
  [[nodiscard]] bool TimeSliced(std::size_t index) const;
  /// One command at a time, in order of submission, each to its end.
  [[nodiscard]] bool Fifo(std::size_t index) const;
  [[nodiscard]] std::uint32_t UnitsOf(std::size_t index) const;
  [[nodiscard]] std::uint32_t UnitsWanted(const DeviceCommand& command) const;
  [[nodiscard]] std::int64_t WorkOf(const DeviceCommand& command) const;
  std::uint32_t QueueFor(const DeviceCommand& command);
  [[nodiscard]] std::uint32_t EntryFor(std::uint32_t queue);
  std::uint32_t ClientFor(std::uint32_t client);
  [[nodiscard]] const Queue* Find(std::uint32_t queue) const;
  /// Requests StartChanged for an engine.
  void NoteChanged(std::size_t index) { changed_ |= 1U << index; }
  void AddEligible(const Queue& queue);
  void RemoveEligible(const Queue& queue);

  [[nodiscard]] std::int64_t WorkDone(const Engine& engine, Instant from, Instant to) const;
  [[nodiscard]] Duration DelayIn(const Engine& engine, Duration span) const;
  [[nodiscard]] Duration PartOf(const Engine& engine, std::size_t running, Duration span) const;
  /// Charges the running commands of an engine for the time up to `to`.
  void Progress(std::size_t index, Instant to);
  /// When a command ends that runs on `units` from the engine's `progressed` on.
  [[nodiscard]] Instant EndOf(const Engine& engine, const Pending& head, std::uint32_t units) const;
  /// Computes the next event of an engine: a completion, or the end of a turn.
  void Plan(std::size_t index, Instant now);
  /// Computes the next event of the device.
  void PlanNext();
  void Finish(std::size_t index, Instant now, std::vector<DeviceCompletion>& completed);
  /// Takes the commands that have ended off an engine.
  void Complete(std::size_t index, Instant now, std::vector<DeviceCompletion>& completed);
  /// Preempts the running command if its turn is over and another client waits.
  void EndTurn(std::size_t index, Instant now);
  void Start(std::size_t index, Instant now);
  void StartFirst(std::size_t index, Instant now);
  void StartNow(std::size_t index, std::uint32_t queue, Instant now);
  void StartChanged(Instant now);
  void StartAll(Instant now);
  const Pending& Begin(std::size_t index, std::uint32_t queue, std::uint32_t units, Instant now);
  [[nodiscard]] Waiting::Place Choose(std::size_t index, Instant now) const;
  [[nodiscard]] bool OthersWait(std::size_t index) const;
  [[nodiscard]] Pending& Head(const Queue& queue) { return pending_[queue.first]; }
  [[nodiscard]] const Pending& Head(const Queue& queue) const { return pending_[queue.first]; }
  std::uint32_t NewPending();
  Pending& Append(Queue& queue);
  void RemoveHead(Queue& queue);
  void Pop(Queue& queue);
  void Clear(Queue& queue);
  void FailAll(Instant now, std::vector<DeviceCompletion>& completed);
  static void Complete(const Pending& pending, Instant now, bool lost, std::vector<DeviceCompletion>& completed);

  const DeviceConfig config_;
  std::array<Instant, kEngineKinds> next_{kNoEvent, kNoEvent, kNoEvent};  // by engine: a completion or a turn's end
  std::uint32_t changed_ = 0;  // a bit for each engine on which a command may begin: its `next_` is computed again
  std::array<Engine, kEngineKinds> engines_{};
  std::vector<Queue> queues_;
  std::vector<Client> clients_;
  std::vector<Pending> pending_;  // of all queues; the entry freed last is reused first, as it is in the CPU's caches
  std::uint32_t free_ = kNone;    // the first entry of the free list
  std::vector<std::uint32_t> queue_hints_;  // where a queue was found last, by its number modulo the size
  std::uint32_t queue_mask_ = 0;            // the size less one
  std::uint64_t next_sequence_ = 0;
  Instant stalled_until_{};
  Instant next_event_{kNoEvent};
  Bytes memory_used_{};
  bool lost_ = false;
  std::function<Duration(const DeviceCommand&)> start_delay_;
};

}  // namespace weir::core
