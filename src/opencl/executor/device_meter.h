// SPDX-License-Identifier: Apache-2.0
// The GPU time of everything that this executor has run, in the device's own unit.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "platform/thread_cpu.h"

namespace weir::opencl {

/// For a device that computes on CPUs: the CPU time of the driver's workers, divided by the number of the device's
/// CPUs. For others: the times of their events, summed by the caller.
class DeviceMeter {
 public:
  /// `workers`: empty if events are used. `cpus` as the daemon reports them; if none are known, one for each worker.
  DeviceMeter(std::vector<pid_t> workers, const platform::CpuSet& cpus);

  [[nodiscard]] bool by_workers() const { return !workers_.empty(); }
  /// GPU time since the last call by any thread. Each nanosecond is returned once.
  std::int64_t TakeNs();

 private:
  const std::vector<pid_t> workers_;
  const std::int64_t divisor_;
  std::atomic<std::int64_t> told_ns_{0};  // of all workers together
};

}  // namespace weir::opencl
