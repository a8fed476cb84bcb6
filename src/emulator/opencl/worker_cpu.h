// SPDX-License-Identifier: Apache-2.0
// CPU time of PoCL's worker threads: the cost of kernels that no entry of the device description names.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <vector>

#include "base/units.h"

namespace weir::emulator::cl {

class WorkerCpu {
 public:
  explicit WorkerCpu(std::vector<pid_t> workers) : workers_(std::move(workers)) {}
  /// CPU time since the last call. Each nanosecond is returned once.
  Duration Take();

 private:
  const std::vector<pid_t> workers_;
  std::mutex mutex_;
  std::int64_t taken_ns_ = 0;
};

}  // namespace weir::emulator::cl
