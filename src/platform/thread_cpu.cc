// SPDX-License-Identifier: Apache-2.0
#include "platform/thread_cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "platform/fd.h"

namespace weir::platform {
namespace {

/// The id of a thread's CPU clock (see pthread_getcpuclockid and the kernel's posix-timers.h).
clockid_t ThreadClock(pid_t tid) {
  constexpr unsigned kPerThreadSchedClock = 6;
  return static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | kPerThreadSchedClock);
}

bool ThreadNameBegins(pid_t tid, std::string_view prefix) {
  char path[64];
  static_cast<void>(std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", static_cast<int>(tid)));
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char name[32];
  const ssize_t length = fd ? ::read(fd.get(), name, sizeof name) : 0;
  return length > 0 && std::string_view(name, static_cast<std::size_t>(length)).starts_with(prefix);
}

}  // namespace

std::optional<std::int64_t> ThreadCpuNs(pid_t tid) {
  timespec t{};
  if (::clock_gettime(ThreadClock(tid), &t) != 0) return std::nullopt;
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

std::vector<pid_t> ThreadsOfThisProcess() {
  std::vector<pid_t> threads;
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return threads;
  while (const dirent* entry = ::readdir(tasks))
    if (entry->d_name[0] != '.') threads.push_back(std::atoi(entry->d_name));
  ::closedir(tasks);
  return threads;
}

std::vector<pid_t> ThreadsOfThisProcess(std::string_view prefix) {
  std::vector<pid_t> threads = ThreadsOfThisProcess();
  std::erase_if(threads, [prefix](pid_t tid) { return !ThreadNameBegins(tid, prefix); });
  return threads;
}

void KeepThreadOn(pid_t tid, const CpuSet& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(tid, sizeof set, &set) != 0) return;
  bool outside = false;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const bool wanted = cpu < cpus.size() * 64 && (cpus[cpu / 64] >> (cpu % 64) & 1) != 0;
    if (wanted || !CPU_ISSET(cpu, &set)) continue;
    CPU_CLR(cpu, &set);
    outside = true;
  }
  if (outside && CPU_COUNT(&set) > 0) static_cast<void>(::sched_setaffinity(tid, sizeof set, &set));
}

}  // namespace weir::platform
