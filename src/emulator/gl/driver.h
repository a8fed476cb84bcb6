// SPDX-License-Identifier: Apache-2.0
// The driver of a process: every thread's stream, fences and queries, over one port. Nothing here calls GL.
//
// All functions are noexcept, because a driver never ends its host. After an error, or when the emulator is gone, the
// driver is inactive: no function waits, and programs get Mesa's results without the model's times.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "emulator/gl/port.h"
#include "emulator/gl/stream.h"

namespace weir::emulator::gl {

class Driver {
 public:
  static constexpr std::size_t kObjectsMax = 65536;  // fences, and queries; further ones get only Mesa's times
  static constexpr std::size_t kFramesUnderWay = 2;

  /// `cpu`: CPU time of the renderer's threads until now. `clock`: CLOCK_MONOTONIC; tests pass another one.
  Driver(std::function<Duration()> cpu, std::function<Instant()> clock);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Sets the device and activates the driver. Called once.
  void Use(std::unique_ptr<Port> port) noexcept;
  /// Called when the emulator is gone, or in a child of the process that connected: no function waits any longer.
  void Abandon(const char* why) noexcept;
  void AbandonInChild() noexcept;
  /// Called when the device is lost, or was reset: as Abandon, and lost() becomes true.
  void Lose() noexcept;
  [[nodiscard]] bool lost() const noexcept { return lost_; }
  [[nodiscard]] bool active() const noexcept { return active_; }
  [[nodiscard]] bool measured() const noexcept { return measured_; }
  /// Null: no emulator.
  [[nodiscard]] const char* renderer() const noexcept { return renderer_.empty() ? nullptr : renderer_.c_str(); }

  void Drew() noexcept;
  [[nodiscard]] bool Drawn() noexcept;
  [[nodiscard]] bool Swaps() noexcept;
  /// Submits what was drawn, so that timestamps taken before become known when the work is complete.
  void Flush() noexcept;
  /// As Flush, and waits for all of this thread's work.
  void Finish() noexcept;
  /// Ends a frame. Returns when at most kFramesUnderWay frames are in flight. `interval`: the least number of vertical
  /// blanks between two frames.
  void Swap(unsigned interval) noexcept;

  // Fences. `fence` is the CPU driver's object.
  void Fence(const void* fence) noexcept;
  void ForgetFence(const void* fence) noexcept;
  [[nodiscard]] bool Signaled(const void* fence) noexcept;
  /// False: not within `timeout_ns`.
  bool WaitFence(const void* fence, std::uint64_t timeout_ns) noexcept;

  // Timer queries. `context` and `query` name the CPU driver's object.
  struct Query {
    const void* context;
    unsigned name;
    bool operator==(const Query&) const = default;
  };
  void BeginElapsed(Query query) noexcept;
  void EndElapsed(const void* context) noexcept;
  void Counter(Query query) noexcept;
  void ForgetQuery(Query query) noexcept;
  enum class Answer { kNotOurs, kPending, kKnown };
  /// With `wait` the answer is never kPending.
  Answer Result(Query query, bool wait, std::uint64_t& value_ns) noexcept;

 private:
  struct QueryHash {
    std::size_t operator()(const Query& query) const {
      return std::hash<const void*>{}(query.context) * 31 + query.name;
    }
  };
  struct Times {
    Timestamp begin, end;
    bool elapsed = false;
  };
  Stream& ThreadStream();
  void CloseBatch(Stream& stream);
  void CloseDrawn(Stream& stream);
  void SubmitClosed(Stream& stream);
  /// Closes the open batch, with or without work, and submits, so that timestamps in it become known.
  void SubmitAll(Stream& stream);
  enum class Kind { kBatch, kPresent };
  Port::Done Completion(BatchPtr batch, Kind kind);
  void Complete(Batch& batch, Kind kind, Instant began, Instant ended) noexcept;
  /// Waits until the device's queue has room for a batch, and takes it.
  void TakeRoom();
  /// Waits until the batch is done. Requires the lock. False: the batch was not done before the deadline.
  bool WaitUntil(const std::shared_ptr<const Batch>& batch, Instant deadline);
  Duration CpuSinceLast();
  void Remember(Query query, const Times& times);

  const std::uint64_t serial_;  // of this driver in the process
  const std::function<Duration()> cpu_;
  const std::function<Instant()> clock_;
  std::shared_ptr<Port> port_;  // set once, before `active_`
  std::atomic<bool> active_{false};
  std::atomic<bool> lost_{false};
  bool measured_ = false;
  FrameCost cost_;
  std::string renderer_;

  pthread_mutex_t mutex_;  // guards all that follows, and all batches
  pthread_cond_t changed_;
  Duration cpu_last_{};
  std::size_t in_queue_ = 0;  // batches that were submitted and are not complete
  std::unordered_map<const void*, std::shared_ptr<const Batch>> fences_;
  std::unordered_map<Query, Times, QueryHash> queries_;
  std::unordered_map<const void*, unsigned> elapsed_;  // by context: the TIME_ELAPSED query that is open
};

}  // namespace weir::emulator::gl
