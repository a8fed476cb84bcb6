// SPDX-License-Identifier: Apache-2.0
#include "platform/process.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "platform/files.h"

namespace weir::platform {

namespace {

/// A numeric field of /proc/PID/stat, numbered as in proc(5).
Result<std::uint64_t> StatFieldOf(pid_t pid, int wanted) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  WEIR_TRY(const std::string stat, ReadFile(path, 4096));
  // The command's name is in parentheses and may contain any character, so that fields are counted from the last
  // parenthesis.
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < wanted && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  std::uint64_t number = 0;
  if (at == std::string::npos ||
      std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), number).ec != std::errc{})
    return Fail(Errc::kIo, "reading " + path + ": field " + std::to_string(wanted) + " is not a number");
  return number;
}

}  // namespace

Result<std::uint64_t> StartTimeOf(pid_t pid) { return StatFieldOf(pid, 22); }

Result<pid_t> ParentOf(pid_t pid) {
  WEIR_TRY(const std::uint64_t parent, StatFieldOf(pid, 4));
  return static_cast<pid_t>(parent);
}

void SignalPidFd(int process, int signal) { ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0); }

Result<Fd> OpenPidFd(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return fd;
  if (errno == ESRCH) return Fail(Errc::kNotFound, "process " + std::to_string(pid) + " has ended");
  return ErrnoError("pidfd_open(" + std::to_string(pid) + ")", errno);
}

namespace {
rlim_t g_files_before = 0;  // 0: the limit was not raised
}  // namespace

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) g_files_before = before;
}

std::size_t FileLimit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

void RestoreFileLimit() {
  rlimit limit{};
  if (g_files_before == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(g_files_before, limit.rlim_max);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

bool PreferQuickWakeups() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  return ::setpriority(PRIO_PROCESS, 0, -10) == 0;
}

}  // namespace weir::platform
