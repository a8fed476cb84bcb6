// SPDX-License-Identifier: Apache-2.0
// When commands go to the model, and when they are complete. Pure: no OpenCL calls, and `now` is an argument.
//
//   a command:  waits for its wait list and, in a queue in order, for the submission of the commands before it
//                  │          (a measured command also waits until it is computed, because its cost is known then)
//                  ▼
//               submitted ──▶ modelled ─┐
//               computed by PoCL ───────┴▶ complete
//
// Laws (timeline_test.cc):
// - A command is complete when it is both computed and modelled, and not before everything in its wait list is.
// - Commands of a queue in order are submitted and complete in order.
// - A command completes once. When one fails, everything that waits for it fails.
// - What the device has failed is complete when it is computed: until then the CPU driver may write to its memory.
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

/// What a command costs on the device.
struct Work {
  enum class Cost : std::uint8_t { kNone, kKnown, kMeasured };
  Cost cost = Cost::kNone;
  core::EngineKind engine = core::EngineKind::kCompute;
  Duration time{};    // kKnown
  double factor = 1;  // kMeasured: of the CPU time
  Bytes bytes{};      // of a copy
  std::uint32_t units = 0;
};

struct Times {
  Instant queued{}, submitted{}, began{}, ended{};
};

class Timeline {
 public:
  static constexpr std::size_t kLanesPerQueueMax = 8;  // of a queue out of order
  static constexpr std::size_t kInFlightMax = 64;      // commands of a lane that the model has at once
  /// Beyond it queues share lanes. With a lane for each of 64 devices, a client of the emulator has 256.
  static constexpr std::size_t kLanesMax = 192;
  /// CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_OUT_OF_RESOURCES.
  static constexpr int kWaitListFailed = -14;
  static constexpr int kDeviceFailed = -5;

  using QueueId = std::uint32_t;
  /// Markers and barriers without a wait list wait for all commands of the queue before them; commands after a barrier
  /// wait for it.
  enum class Order : std::uint8_t { kCommand, kMarker, kBarrier };
  enum class Phase : std::uint8_t { kQueued, kSubmitted, kRunning, kComplete };

  /// A command that goes to the model. `lane` is the number of a queue there.
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
    bool lost = false;  // because of the device
    Times times;
  };

  /// `depth`: commands that the device holds for a queue; 0: no limit.
  QueueId AddQueue(std::uint32_t device, bool in_order, std::size_t depth);
  /// Its commands still complete.
  void RemoveQueue(QueueId queue);
  /// What has become of the wait list before. kLost: the device has failed a part of it, and the CPU driver, which
  /// knows nothing of it, computes the command. kFailed: it does not.
  enum class Before : std::uint8_t { kGood, kLost, kFailed };
  /// `waits` may contain commands that are complete.
  CommandId Add(Instant now, QueueId queue, Order order, const Work& work, std::span<const CommandId> waits,
                Before before = Before::kGood);
  CommandId AddUserEvent(Instant now);

  void SetUserEvent(Instant now, CommandId event, int status);
  /// The CPU driver has done the command. `cpu`: what it took; `status`: negative when it failed.
  void Computed(Instant now, CommandId command, int status, Duration cpu);
  /// The model has done a command that was submitted.
  void Modelled(Instant now, CommandId command, Instant began, Instant ended);
  /// The device has failed a command that was submitted. The CPU driver knows nothing of it.
  void Failed(Instant now, CommandId command);
  /// The model is gone.
  void Abandon(Instant now);

  /// What happened in the calls before, in order. The caller takes it.
  std::vector<Submission> TakeSubmissions();
  std::vector<End> TakeEnds();

  [[nodiscard]] Phase PhaseOf(CommandId command) const;
  /// The command that was added to the queue last; 0: none.
  [[nodiscard]] CommandId Last(QueueId queue) const;
  /// Whether the commands of the queue until this one are complete.
  [[nodiscard]] bool Done(QueueId queue, CommandId until) const;
  [[nodiscard]] std::vector<CommandId> Open() const;

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
    std::set<CommandId> open, waiting;  // not complete; of those, not submitted
    std::set<CommandId> finished;       // computed and modelled, not complete yet
    CommandId last = 0, barrier = 0;
  };
  struct Command {
    QueueId queue = 0;  // 0: a user event
    Work work;
    std::size_t waits = 0;             // of its wait list, not complete
    std::vector<CommandId> waiters{};  // commands that have it in their wait list
    bool computed = false, modelled = false;
    bool lost = false;  // the device has failed it, or something in its wait list
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
