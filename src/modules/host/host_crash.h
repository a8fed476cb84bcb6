// SPDX-License-Identifier: Apache-2.0
// Tells which run has crashed. The signal handler runs in the crashed thread, and each thread of a run knows its run's
// number.
#pragma once

#include <cstdint>
#include <memory>

namespace weir::modules {

/// After this call a fatal signal, or exit() in a run's thread, sends a CrashFrame to `fd` and ends the process.
void WatchForCrashes(int fd);

/// Marks the current thread as working for a run. The thread gets an alternate signal stack, so that a stack overflow
/// is reported too.
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
