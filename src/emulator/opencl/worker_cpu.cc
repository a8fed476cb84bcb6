// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/worker_cpu.h"

#include <algorithm>
#include <utility>

#include "platform/thread_cpu.h"

namespace weir::emulator::cl {

Duration WorkerCpu::Take() {
  const std::lock_guard lock(mutex_);
  std::int64_t used_ns = 0;
  for (const pid_t tid : workers_) used_ns += platform::ThreadCpuNs(tid).value_or(0);
  const std::int64_t before_ns = std::exchange(taken_ns_, std::max(used_ns, taken_ns_));
  return Duration{taken_ns_ - before_ns};
}

}  // namespace weir::emulator::cl
