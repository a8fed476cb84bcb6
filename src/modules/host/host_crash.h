// SPDX-License-Identifier: Apache-2.0
// Which run has crashed: the signal handler runs in the thread that did, and each thread of a run knows its number.
#pragma once

#include <cstdint>
#include <memory>

namespace weir::modules {

/// From now on a fatal signal, or exit() in a run's thread, sends a crash frame to `fd` and ends the process.
void WatchForCrashes(int fd);

/// A thread works for this run while it lives, on a signal stack of its own, so that an overflown stack is told as
/// well.
class CrashWatch {
 public:
  explicit CrashWatch(std::uint64_t run);
  ~CrashWatch();
  CrashWatch(const CrashWatch&) = delete;
  CrashWatch& operator=(const CrashWatch&) = delete;

 private:
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace weir::modules
