// SPDX-License-Identifier: Apache-2.0
// Decides when commands go to the model, and when they are complete. Pure: no OpenCL calls, and `now` is an argument.
//
//   a command:  waits for its wait list and, in an in-order queue, for the submission of the commands before it
//                  │          (a measured command also waits until it is computed, because its cost is known then)
//                  ▼
//               submitted ──▶ modelled ─┐
//               computed by PoCL ───────┴▶ complete
//
// Laws (timeline_test.cc):
// - A command is complete when it is both computed and modelled, and not before everything in its wait list is.
// - Commands of an in-order queue are submitted and complete in order.
// - A command completes once. When a command fails, all commands that wait for it fail.
// - A command that the device has failed is complete when it is computed: until then PoCL may write to its memory.
// - Without the model, a command is complete when it is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "core/device/device_config.h"

namespace weir::emulator::cl {

/// 0: no command.
using CommandId = std::uint64_t;

/// The cost of a command on the device.
struct Work {
  enum class Cost : std::uint8_t { kNone, kKnown, kMeasured };
  Cost cost = Cost::kNone;
  core::EngineKind engine = core::EngineKind::kCompute;
  Duration time{};    // kKnown
  double factor = 1;  // kMeasured: multiplies the CPU time
  Bytes bytes{};      // of a copy
  std::uint32_t units = 0;
};

struct Times {
  Instant queued{}, submitted{}, began{}, ended{};
};

class Timeline {
 public:
  static constexpr std::size_t kLanesPerQueueMax = 8;  // for an out-of-order queue
  static constexpr std::size_t kInFlightMax = 64;      // commands of a lane that the model has at once
  /// Queues share lanes when there are this many. Each device without a lane gets one beyond this number: with 64
  /// devices these are 256 at most, the emulator's limit of a client's queues.
  static constexpr std::size_t kLanesMax = 192;
  /// CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_OUT_OF_RESOURCES.
  static constexpr int kWaitListFailed = -14;
  static constexpr int kDeviceFailed = -5;

  using QueueId = std::uint32_t;
  /// Markers and barriers without a wait list wait for all commands of the queue before them; commands after a barrier
  /// wait for it.
  enum class Order : std::uint8_t { kCommand, kMarker, kBarrier };
  enum class Phase : std::uint8_t { kQueued, kSubmitted, kRunning, kComplete };

  /// A command that goes to the model. `lane` is the number of the emulator's queue.
  struct Submission {
    CommandId command = 0;
    std::uint32_t device = 0, lane = 0;
    core::EngineKind engine = core::EngineKind::kCompute;
    Duration work{};
    Bytes bytes{};
    std::uint32_t units = 0;
  };
  struct End {
    CommandId command = 0;
    int status = 0;     // negative: it failed
    bool lost = false;  // the command failed because the device did
    Times times;
  };

  /// `depth`: commands that the device holds for a queue; 0: no limit.
  QueueId AddQueue(std::uint32_t device, bool in_order, std::size_t depth);
  /// Removes a queue. Its commands still complete.
  void RemoveQueue(QueueId queue);
  /// The state of the wait list when a command is added. kLost: the device has failed a command of it; PoCL has seen no
  /// failure and still computes the added command. kFailed: a command of it failed at PoCL, which computes nothing
  /// then.
  enum class Before : std::uint8_t { kGood, kLost, kFailed };
  /// `waits` may contain commands that are complete.
  CommandId Add(Instant now, QueueId queue, Order order, const Work& work, std::span<const CommandId> waits,
                Before before = Before::kGood);
  CommandId AddUserEvent(Instant now);

  void SetUserEvent(Instant now, CommandId event, int status);
  /// Records that PoCL has ended the command. `cpu`: the CPU time that it took; `status`: negative if it failed.
  void Computed(Instant now, CommandId command, int status, Duration cpu);
  /// Records that the model has completed a submitted command.
  void Modelled(Instant now, CommandId command, Instant began, Instant ended);
  /// Records that the device has failed a submitted command. PoCL computes the command nevertheless.
  void Failed(Instant now, CommandId command);
  /// Records that the model is gone.
  void Abandon(Instant now);

  /// The submissions and ends that earlier calls have decided, in order. They are returned once.
  std::vector<Submission> TakeSubmissions();
  std::vector<End> TakeEnds();

  [[nodiscard]] Phase PhaseOf(CommandId command) const;
  /// The command that was added to the queue last; 0: none.
  [[nodiscard]] CommandId Last(QueueId queue) const;
  /// Whether the commands of the queue until this one are complete.
  [[nodiscard]] bool Done(QueueId queue, CommandId until) const;
  [[nodiscard]] std::vector<CommandId> Open() const;
  /// Whether PoCL computes a command that was added before `end`, or will do so before the program sets a user event.
  [[nodiscard]] bool Computing(CommandId end) const;
  /// The id that the next command gets.
  [[nodiscard]] CommandId Next() const { return next_command_; }

 private:
  struct Lane {
    std::uint32_t device = 0;
    std::set<QueueId> users;
    std::vector<CommandId> in_flight;  // in order of submission
  };
  struct Queue {
    std::uint32_t device = 0;
    bool in_order = true, removed = false;
    std::size_t depth = kInFlightMax;
    std::vector<std::uint32_t> lanes;
    std::set<CommandId> open, waiting;  // not complete; those of open that are not submitted
    std::set<CommandId> finished;       // computed and modelled, not complete yet
    CommandId last = 0, barrier = 0;
  };
  struct Command {
    QueueId queue = 0;  // 0: a user event
    Work work;
    std::size_t waits = 0;             // commands of its wait list that are not complete
    std::vector<CommandId> waiters{};  // commands that have it in their wait list
    bool computed = false, modelled = false;
    bool lost = false;  // the device has failed this command, or one in its wait list
    int status = 0;
    Duration cpu{};
    Times times{};
  };

  void Move(Instant now);
  [[nodiscard]] bool OrderedBy(const Command& before, const Command& after) const;
  void Settle();
  void Advance(QueueId id);
  void Hand(Queue& queue);
  bool Submit(QueueId id, Queue& queue, CommandId command);
  void MarkModelled(CommandId id, Command& command);
  void NoteFinished(CommandId id, const Command& command);
  void Fail(CommandId failed, int status);
  void Lose(CommandId id, Command& command, int status);
  Command* Land(Instant now, CommandId id);
  void Complete(CommandId id);
  std::uint32_t LaneFor(QueueId id, Queue& queue);
  void GiveLanesBack(QueueId id);
  static Duration WorkOf(const Command& command);

  Instant now_{};
  bool abandoned_ = false;
  CommandId next_command_ = 1;
  QueueId next_queue_ = 1;
  std::map<QueueId, Queue> queues_;
  std::unordered_map<CommandId, Command> commands_;
  std::vector<Lane> lanes_;
  std::unordered_map<CommandId, std::uint32_t> in_flight_;  // the lane of each command that the model has
  std::set<QueueId> changed_;
  std::vector<Submission> submissions_;
  std::vector<End> ends_;
};

}  // namespace weir::emulator::cl
