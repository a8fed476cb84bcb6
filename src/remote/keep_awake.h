// SPDX-License-Identifier: Apache-2.0
// Keeps the processors from idling while answers come and go. A call that waits passes eight threads, each woken by the
// one before; in a virtual machine waking a processor that idles costs more than what they all do, and on few
// processors the next one always idles. While what passes comes soon after one another, a thread of the lowest kind
// that there is (SCHED_IDLE) turns on each: whoever else has something to do takes its place at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "remote/awake_window.h"

namespace weir::remote {

class KeepAwake {
 public:
  /// Where there are more, a thread that is woken has its own.
  static constexpr std::size_t kProcessorsMost = 4;

  /// On these processors; none: as if there were no such thing. By default all that this process may use, if they are
  /// from two to kProcessorsMost and nobody counts how much of them is used (cpu.max of a control group).
  explicit KeepAwake(std::vector<int> processors = WhereItPays());
  ~KeepAwake();
  KeepAwake(const KeepAwake&) = delete;
  KeepAwake& operator=(const KeepAwake&) = delete;

  /// From any thread: no processor idles before this time (CLOCK_MONOTONIC).
  void Until(std::int64_t ns);
  /// How often its threads began to turn: for tests.
  [[nodiscard]] std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  static std::vector<int> WhereItPays();
  void Turn(int processor);

  std::atomic<std::int64_t> until_ns_{0};
  std::atomic<std::uint32_t> asleep_{0};  // futex word: 1, or 0 when they are to look again
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// One place where something passes, on one thread.
class Passing {
 public:
  explicit Passing(KeepAwake* awake) : awake_(awake) {}
  /// Something does.
  void Now();

 private:
  KeepAwake* const awake_;
  AwakeWindow window_;
  std::int64_t last_ns_ = 0;
};

}  // namespace weir::remote
