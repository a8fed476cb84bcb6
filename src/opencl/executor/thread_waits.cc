// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/thread_waits.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "platform/thread_cpu.h"

namespace weir::opencl {
namespace {

std::string TaskFile(pid_t tid, const char* name) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/" + name);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The thread's start since boot, in clock ticks; negative: there is no such thread. Field 22 of proc(5)'s stat,
/// counted after the name, which may contain any character.
std::int64_t BeginTicksOf(pid_t tid) {
  const std::string line = TaskFile(tid, "stat");
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;
  std::int64_t ticks = -1;
  fields >> ticks;
  return ticks;
}

/// The second number of schedstat: time on a run queue.
std::int64_t RunQueueNs(pid_t tid) {
  std::istringstream fields(TaskFile(tid, "schedstat"));
  std::int64_t ran = 0, waited = 0;
  fields >> ran >> waited;
  return waited;
}

std::int64_t SinceBootNs() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

ThreadWaits::Sums ThreadWaits::Sample() {
  static const std::int64_t tick_ns = 1'000'000'000 / std::max<std::int64_t>(::sysconf(_SC_CLK_TCK), 1);
  std::map<pid_t, Known> alive;
  for (const pid_t tid : platform::ThreadsOfThisProcess()) {
    if (std::ranges::find(besides_, tid) != besides_.end()) continue;
    const std::int64_t begin = BeginTicksOf(tid);
    if (begin < 0) continue;
    Known& now = alive[tid];
    if (const auto before = known_.find(tid); before != known_.end() && before->second.begin_ticks == begin)
      now = before->second;
    now.begin_ticks = begin;
    const std::int64_t steal = std::max(RunQueueNs(tid) - now.steal_ns, std::int64_t{0});
    const std::int64_t lived = std::max(SinceBootNs() - begin * tick_ns - now.lived_ns, std::int64_t{0});
    sums_.steal_ns += steal;
    sums_.elsewhere_ns += std::max(lived - steal, std::int64_t{0});
    now.steal_ns += steal;
    now.lived_ns += lived;
  }
  known_ = std::move(alive);
  sums_.threads = static_cast<std::uint32_t>(known_.size());
  return sums_;
}

}  // namespace weir::opencl
