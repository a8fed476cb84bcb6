// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/renderer_cpu.h"

#include <algorithm>

#include "platform/clock.h"
#include "platform/pthread_lock.h"
#include "platform/thread_cpu.h"

namespace weir::emulator::gl {
namespace {

constexpr std::int64_t kScanEveryNs = 1'000'000'000;

}  // namespace

Duration RendererCpu::Used() noexcept {
  const platform::PthreadLock lock(mutex_);
  try {
    Look(platform::CoarseNowNs());
  } catch (...) {  // out of memory: the threads that are known count
  }
  return Duration{used_ns_};
}

void RendererCpu::Look(std::int64_t now_ns) {
  bool ended = threads_.empty();
  for (auto& [tid, last_ns] : threads_) {
    const auto cpu_ns = platform::ThreadCpuNs(tid);
    ended |= !cpu_ns.has_value();
    if (!cpu_ns) continue;
    used_ns_ += std::max<std::int64_t>(0, *cpu_ns - last_ns);
    last_ns = *cpu_ns;
  }
  if (!ended && now_ns - scanned_ns_ < kScanEveryNs) return;
  scanned_ns_ = now_ns;
  std::map<pid_t, std::int64_t> found;
  for (const pid_t tid : platform::ThreadsOfThisProcess("llvmpipe-")) {
    const auto known = threads_.find(tid);
    const std::int64_t cpu_ns = platform::ThreadCpuNs(tid).value_or(0);
    used_ns_ += std::max<std::int64_t>(0, cpu_ns - (known != threads_.end() ? known->second : 0));
    found.emplace(tid, cpu_ns);
  }
  threads_ = std::move(found);
}

}  // namespace weir::emulator::gl
