// SPDX-License-Identifier: Apache-2.0
#include "remote/keep_awake.h"

#include <sched.h>

#include <string>
#include <string_view>

#include "opencl/channel/adaptive_spin.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "platform/futex.h"
#include "platform/process.h"

namespace weir::remote {
namespace {

constexpr int kTurnsBetweenLooks = 32;   // between two readings of the clock
constexpr Duration kDoze = seconds(10);  // bound of one sleep; Until wakes the thread earlier

/// Binds this thread to one processor and gives it the lowest priority (SCHED_IDLE). False: this failed, and the thread
/// must not spin, because with an ordinary priority it would take time from other threads.
bool BecomeTheLowest(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  const sched_param none{};
  // The filter of a confined service allows these calls for the calling thread, which has the number 0.
  return ::sched_setaffinity(0, sizeof only, &only) == 0 && ::sched_setscheduler(0, SCHED_IDLE, &none) == 0;
}

/// Whether this process's control group, or an ancestor of it, has a CPU quota.
bool HasCpuQuota() {
  const auto groups = platform::ReadFile("/proc/self/cgroup", 1 << 16);
  if (!groups) return false;
  const std::size_t at = groups->find("0::/");
  if (at == std::string::npos) return false;
  std::string group = groups->substr(at + 3, groups->find('\n', at) - at - 3);
  for (;;) {
    const auto most = platform::ReadFile("/sys/fs/cgroup" + group + "/cpu.max", 256);
    if (most && !most->starts_with("max")) return true;
    if (group.size() <= 1) return false;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

std::vector<int> KeepAwake::WhereItPays() {
  std::vector<int> processors = platform::UsableCpus();
  if (processors.size() < 2 || processors.size() > kProcessorsMost || HasCpuQuota()) processors.clear();
  return processors;
}

KeepAwake::KeepAwake(const std::vector<int>& processors) {
  for (const int processor : processors) threads_.emplace_back([this, processor] { Turn(processor); });
}

KeepAwake::~KeepAwake() {
  stop_.store(true);
  asleep_.store(0);
  platform::FutexWakeAll(asleep_);
  for (std::thread& thread : threads_) thread.join();
}

void KeepAwake::Until(std::int64_t ns) {
  if (threads_.empty()) return;
  std::int64_t before = until_ns_.load(std::memory_order_relaxed);
  while (before < ns && !until_ns_.compare_exchange_weak(before, ns)) continue;
  if (asleep_.load() == 0) return;
  asleep_.store(0);
  platform::FutexWakeAll(asleep_);
}

void KeepAwake::Turn(int processor) {
  if (!BecomeTheLowest(processor)) return;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (platform::NowNs() < until_ns_.load(std::memory_order_relaxed)) {
      turns_.fetch_add(1, std::memory_order_relaxed);
      do {
        for (int turn = 0; turn < kTurnsBetweenLooks; ++turn) opencl::Pause();
        ::sched_yield();  // yields to other SCHED_IDLE threads
      } while (platform::NowNs() < until_ns_.load(std::memory_order_relaxed) && !stop_.load(std::memory_order_relaxed));
    }
    asleep_.store(1);
    if (platform::NowNs() >= until_ns_.load() && !stop_.load()) platform::FutexWait(asleep_, 1, kDoze);
  }
}

void Passing::Now() {
  if (awake_ == nullptr) return;
  const std::int64_t now_ns = platform::NowNs();
  window_.Came(Duration(now_ns - last_ns_));
  last_ns_ = now_ns;
  if (window_.Length() > Duration::zero()) awake_->Until(now_ns + window_.Length().count());
}

}  // namespace weir::remote
