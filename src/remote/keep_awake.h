// SPDX-License-Identifier: Apache-2.0
// Keeps processors from idling while messages are frequent. A blocking call passes through eight threads, each woken by
// the one before it. In a virtual machine, waking an idle processor costs more than the work of all these threads, and
// with few processors the next one is always idle. While messages follow each other closely, a SCHED_IDLE thread spins
// on each processor; any other thread preempts it at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "remote/awake_window.h"

namespace weir::remote {

class KeepAwake {
 public:
  /// With more processors, a woken thread usually has a processor of its own.
  static constexpr std::size_t kProcessorsMost = 4;

  /// Spins on these processors; an empty list disables the mechanism. The default is all processors that this process
  /// may use if there are two to kProcessorsMost, and none if a control group limits their use (cpu.max).
  explicit KeepAwake(const std::vector<int>& processors = WhereItPays());
  ~KeepAwake();
  KeepAwake(const KeepAwake&) = delete;
  KeepAwake& operator=(const KeepAwake&) = delete;

  /// May be called from any thread: no processor idles before this time (CLOCK_MONOTONIC).
  void Until(std::int64_t ns);
  /// How often the threads have begun to spin. For tests.
  [[nodiscard]] std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  static std::vector<int> WhereItPays();
  void Turn(int processor);

  std::atomic<std::int64_t> until_ns_{0};
  // Futex word: 1 while a thread sleeps; 0 tells the threads to check until_ns_ again
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// A point that messages pass, used by one thread.
class Passing {
 public:
  explicit Passing(KeepAwake* awake) : awake_(awake) {}
  /// Records a message.
  void Now();

 private:
  KeepAwake* const awake_;
  AwakeWindow window_;
  std::int64_t last_ns_ = 0;
};

}  // namespace weir::remote
