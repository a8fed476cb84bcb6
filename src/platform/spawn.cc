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
#include "platform/process.h"

namespace weir::platform {
namespace {

/// The child's user; looked up before the fork.
struct User {
  bool change = false;
  uid_t uid = 0;
  gid_t gid = 0;
};

Result<User> FindUser(uid_t uid) {
  if (uid == static_cast<uid_t>(-1) || uid == ::geteuid()) return User{};
  const passwd* entry = ::getpwuid(uid);
  if (entry == nullptr) return Fail(Errc::kNotFound, "no user with uid " + std::to_string(uid));
  return User{.change = true, .uid = uid, .gid = entry->pw_gid};
}

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

bool ChangeUser(const User& user) {
  return !user.change || (::setgroups(0, nullptr) == 0 && ::setgid(user.gid) == 0 && ::setuid(user.uid) == 0);
}

/// Prepares this child for its program. False: `errno` says why.
bool Prepare(const SpawnSpec& spec, const User& user) {
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (!ChangeUser(user)) return false;
  RestoreFileLimit();
  ::setpriority(PRIO_PROCESS, 0, 0);  // the child must not inherit a raised priority
  // Descriptors that a library opened without close-on-exec must not survive in the child.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (spec.kept_fd >= 0 && ::fcntl(spec.kept_fd, F_SETFD, 0) != 0) return false;
  const auto is = [](int fd, int number) { return ::dup2(fd, number) == number; };
  if (spec.piped_fd >= 0 && !(is(spec.piped_fd, STDIN_FILENO) && is(spec.piped_fd, STDOUT_FILENO))) return false;
  if (spec.output_fd >= 0 && !(is(spec.output_fd, STDOUT_FILENO) && is(spec.output_fd, STDERR_FILENO))) return false;
  return !spec.confined || Confine();
}

[[noreturn]] void Become(const SpawnSpec& spec, const std::vector<char*>& argv, const std::vector<char*>& environment,
                         const User& user, int error_fd) {
  if (Prepare(spec, user)) ::execve(argv[0], argv.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<pid_t> Spawn(const SpawnSpec& spec) {
  WEIR_TRY(const User user, FindUser(spec.uid));
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
  if (pid == 0) Become(spec, argv, environment, user, write_end.get());
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
