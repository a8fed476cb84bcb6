// SPDX-License-Identifier: Apache-2.0
// GPU time of everything this executor has run so far, in the device's one unit.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "platform/thread_cpu.h"

namespace weir::opencl {

/// Of a device that computes on CPUs: CPU time of the driver's workers, divided by the CPUs that make up the device. Of
/// others: what their events say, summed by the caller.
class DeviceMeter {
 public:
  /// `workers`: empty, when events are to tell. `cpus` as the daemon says; none known: one for each worker.
  DeviceMeter(std::vector<pid_t> workers, const platform::CpuSet& cpus);

  [[nodiscard]] bool by_workers() const { return !workers_.empty(); }
  /// GPU time since the last call, by whichever thread; each nanosecond is told once.
  std::int64_t TakeNs();

 private:
  const std::vector<pid_t> workers_;
  const std::int64_t divisor_;
  std::atomic<std::int64_t> told_ns_{0};  // of all workers together
};

}  // namespace weir::opencl
