// SPDX-License-Identifier: Apache-2.0
#include "platform/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "platform/confinement.h"
#include "platform/fd.h"
#include "platform/namespaces.h"
#include "platform/process.h"

namespace weir::platform {
namespace {

/// This process's environment with `changes` applied.
std::vector<char*> EnvironmentWith(const std::vector<std::string>& changes) {
  std::vector<char*> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view old(*entry);
    const auto replaces = [&](const std::string& change) {
      const std::size_t name = change.find('=') + 1;  // includes the '='
      return old.substr(0, name) == std::string_view(change).substr(0, name);
    };
    if (std::ranges::none_of(changes, replaces)) all.push_back(*entry);
  }
  for (const std::string& change : changes) all.push_back(const_cast<char*>(change.c_str()));
  all.push_back(nullptr);
  return all;
}

/// Kills all processes of this child's user except the child. Without capabilities the kernel lets a process signal
/// those of its own user only; this child is checked to have no user but `user`, which is not root.
bool EndOthersOf(const RunAs& user) {
  uid_t real = 0, effective = 0, saved = 0;
  if (::getresuid(&real, &effective, &saved) != 0) return false;
  if (user.uid == 0 || real != user.uid || effective != user.uid || saved != user.uid) {
    errno = EPERM;
    return false;
  }
  return ::kill(-1, SIGKILL) == 0 || errno == ESRCH;
}

/// Every process may raise this figure of its own. Where it can't, the program runs as well.
void BeExpendable() {
  constexpr std::string_view kFigure = "500";
  const Fd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file) [[maybe_unused]]
    const ssize_t written = ::write(file.get(), kFigure.data(), kFigure.size());
}

/// Enters the group of this file, which is a cgroup.procs.
bool EnterGroup(const std::string& entry) {
  constexpr std::string_view kThisProcess = "0";
  const Fd file(::open(entry.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), kThisProcess.data(), kThisProcess.size()) > 0;
}

/// Prepares this child for its program. False: `errno` says why.
bool Prepare(const SpawnSpec& spec) {
  // A confined program has no terminal: neither a controlling one nor its standard input.
  spec.confined ? static_cast<void>(::setsid()) : static_cast<void>(::setpgid(0, 0));
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, spec.error_fd >= 0 ? SIG_IGN : SIG_DFL);
  if (spec.expendable) BeExpendable();  // with the right to it, the figure also becomes the least one for the program
  if (!std::ranges::all_of(spec.groups, EnterGroup)) return false;
  if (spec.own_namespaces && !EnterOwnNamespaces()) return false;
  if (spec.as && !Become(*spec.as)) return false;
  const rlimit processes{spec.processes_max, spec.processes_max};
  if (spec.processes_max > 0 && ::setrlimit(RLIMIT_NPROC, &processes) != 0) return false;
  RestoreFileLimit();
  ::setpriority(PRIO_PROCESS, 0, 0);  // the child must not inherit a raised priority
  // Descriptors that a library opened without close-on-exec must not survive in the child.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (spec.kept_fd >= 0 && ::fcntl(spec.kept_fd, F_SETFD, 0) != 0) return false;
  const auto is = [](int fd, int number) {
    return fd == number ? ::fcntl(fd, F_SETFD, 0) == 0 : ::dup2(fd, number) == number;
  };
  if (spec.confined && !is(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO)) return false;
  if (spec.piped_fd >= 0 && !(is(spec.piped_fd, STDIN_FILENO) && is(spec.piped_fd, STDOUT_FILENO))) return false;
  if (spec.output_fd >= 0 && !(is(spec.output_fd, STDOUT_FILENO) && is(spec.output_fd, STDERR_FILENO))) return false;
  if (spec.silent || spec.no_output) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || !is(null, STDOUT_FILENO) || (spec.silent && !is(null, STDERR_FILENO))) return false;
  }
  if (spec.error_fd >= 0 && !is(spec.error_fd, STDERR_FILENO)) return false;
  if (spec.confined && !Confine({.files = spec.files ? &*spec.files : nullptr})) return false;
  if (!spec.ends_its_user) return true;
  errno = EINVAL;
  return spec.confined && spec.as && EndOthersOf(*spec.as);
}

[[noreturn]] void Execute(const SpawnSpec& spec, const std::vector<char*>& argv, const std::vector<char*>& environment,
                          int error_fd) {
  if (Prepare(spec)) ::execve(argv[0], argv.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

bool Become(const RunAs& user) {
  return ::setgroups(user.groups.size(), user.groups.data()) == 0 && ::setgid(user.gid) == 0 && ::setuid(user.uid) == 0;
}

Result<RunAs> AccountOf(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  if (entry == nullptr) return Fail(Errc::kNotFound, "no user with uid " + std::to_string(uid));
  return RunAs{.uid = uid, .gid = entry->pw_gid};
}

Result<pid_t> Spawn(const SpawnSpec& spec) {
  std::vector<char*> argv;
  for (const std::string& argument : spec.argv) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::vector<char*> environment = EnvironmentWith(spec.environment);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("starting " + spec.argv[0], errno);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  if (spec.confined) PrepareConfinement();
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoError("starting " + spec.argv[0], errno);
  if (pid == 0) Execute(spec, argv, environment, write_end.get());
  write_end.Reset();
  int error = 0;
  ssize_t told = 0;
  do told = ::read(read_end.get(), &error, sizeof error);
  while (told < 0 && errno == EINTR);
  if (told != static_cast<ssize_t>(sizeof error)) return pid;  // exec succeeded
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return ErrnoError("starting " + spec.argv[0], error);
}

}  // namespace weir::platform
