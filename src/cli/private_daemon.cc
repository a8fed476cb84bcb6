// SPDX-License-Identifier: Apache-2.0
#include "cli/private_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "cli/common/control_client.h"
#include "cli/common/program.h"
#include "daemon/folder_lock.h"
#include "platform/clock.h"
#include "platform/fd.h"
#include "platform/files.h"
#include "platform/process.h"

namespace weir::cli {
namespace {

using platform::Fd;

constexpr Duration kStartLimit = seconds(5);
constexpr Duration kLockLimit = seconds(15);  // the lock's holder needs at most kStartLimit

Status LockRunDir(const Fd& lock, const std::string& path) {
  if (!lock)
    return Fail(errno == EACCES ? Errc::kPermissionDenied : Errc::kIo,
                fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  const Instant end = platform::Now() + kLockLimit;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Fail(Errc::kIo, fmt::format("cannot lock {}: {}", path, std::strerror(errno)));
    if (platform::Now() > end)
      return Fail(Errc::kTimeout, fmt::format("another 'weir run' has locked {} for {:.0f} s; end it and try again",
                                              path, SecondsOf(kLockLimit)));
    poll(nullptr, 0, 10);
  }
  return Ok();
}

std::string LastLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return last.empty() ? "(its log is empty)" : last;
}

/// Runs in the grandchild. Makes only calls that are safe after fork.
[[noreturn]] void BecomeDaemon(char* const* argv, int null_fd, int log_fd) {
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  if (chdir("/") != 0) _exit(127);
  execv("/proc/self/exe", argv);
  _exit(127);
}

/// Forks twice, so that init reaps the daemon; returns its pid.
Result<pid_t> Detach(std::vector<std::string> arguments, int null_fd, int log_fd) {
  const std::vector<char*> argv = ArgvOf(arguments);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Fail(Errc::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  Fd read_end(ends[0]), write_end(ends[1]);
  const pid_t middle = fork();
  if (middle < 0)
    return Fail(Errc::kResourceExhausted, fmt::format("cannot start a private daemon: fork: {}", std::strerror(errno)));
  if (middle == 0) {
    setsid();
    const pid_t daemon = fork();
    if (daemon == 0) BecomeDaemon(argv.data(), null_fd, log_fd);
    const bool told = write(write_end.get(), &daemon, sizeof(daemon)) == static_cast<ssize_t>(sizeof(daemon));
    _exit(told ? 0 : 1);
  }
  write_end.Reset();
  pid_t daemon = -1;
  const bool told = read(read_end.get(), &daemon, sizeof(daemon)) == static_cast<ssize_t>(sizeof(daemon));
  waitpid(middle, nullptr, 0);
  if (!told || daemon <= 0) return Fail(Errc::kResourceExhausted, "cannot start a private daemon: fork failed");
  return daemon;
}

bool Answers(const std::string& socket) { return ControlClient(socket, seconds(1)).Get("/v1/status").has_value(); }

}  // namespace

Status StartPrivateDaemon(const Places& places) {
  const std::string log_path = places.run_dir + "/private.log";
  const Fd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log || !null) return Fail(Errc::kIo, fmt::format("cannot open {}: {}", log_path, std::strerror(errno)));
  WEIR_TRY(const pid_t daemon,
           Detach({"weir", "serve", "--private", "--run-dir", places.run_dir, "--socket", places.socket}, null.get(),
                  log.get()));
  const auto life = platform::OpenPidFd(daemon);
  const Instant end = platform::Now() + kStartLimit;
  while (!Answers(places.socket)) {
    pollfd ended{life ? life->get() : -1, POLLIN, 0};
    if (!life || poll(&ended, 1, 5) > 0)
      return Fail(Errc::kUnavailable,
                  fmt::format("the private daemon ended at once: {}; see {}", LastLineOf(log_path), log_path));
    if (platform::Now() > end) {
      kill(daemon, SIGTERM);
      return Fail(Errc::kTimeout, fmt::format("the private daemon didn't answer at {} within {:.0f} s; see {}",
                                              places.socket, SecondsOf(kStartLimit), log_path));
    }
  }
  fmt::print(
      stderr,
      "weir: no daemon was running; started a private one (process {}), which ends {:.0f} s after its last tenant\n",
      daemon, SecondsOf(kPrivateIdle));
  return Ok();
}

namespace {

/// Waits until a daemon answers. `why`: the reason for waiting, for messages.
Status AwaitDaemon(const Places& places, const std::string& why, const std::string& advice) {
  constexpr Duration kSayAfter = milliseconds(300);
  const Instant start = platform::Now();
  bool said = false;
  while (!Answers(places.socket)) {
    const Duration waited = platform::Now() - start;
    if (waited > kReturnLimit)
      return Fail(Errc::kUnavailable, fmt::format("{}, and no daemon answered at {} within {:.0f} s; {}", why,
                                                  places.socket, SecondsOf(kReturnLimit), advice));
    if (waited > kSayAfter && !std::exchange(said, true))
      fmt::print(stderr, "weir: {}; waiting up to {:.0f} s for it\n", why, SecondsOf(kReturnLimit));
    poll(nullptr, 0, 20);
  }
  return Ok();
}

}  // namespace

Status EnsureDaemon(const Places& places, const std::string& vgpu) {
  // The programs that run on a vGPU get an environment from the daemon. In /tmp any user could have made the folder.
  if (!places.socket_named && places.run_dir.starts_with("/tmp/"))
    if (Status trusted = platform::CheckFolder(places.run_dir, 0700);
        !trusted && trusted.error().code != Errc::kNotFound)
      return Fail(trusted.error().code, "no daemon is asked: " + trusted.error().message +
                                            "; set XDG_RUNTIME_DIR, or name a folder with --run-dir");
  const auto status = ControlClient(places.socket).Get("/v1/status");
  if (status) return Ok();
  if (status.error().code != Errc::kUnavailable) return status.error();
  const std::string run_dir =
      places.socket_named ? std::filesystem::path(places.socket).parent_path().string() : places.run_dir;
  const std::string mark = daemon::ServingMark::PathIn(run_dir);
  if (access(mark.c_str(), F_OK) == 0)
    return AwaitDaemon(places, "the daemon of " + run_dir + " has crashed or is starting",
                       places.socket_named ? "start it with 'weir serve'"
                                           : "start it with 'weir serve', or remove " + mark +
                                                 " to let 'weir run' start a private one");
  if (places.socket_named)
    return Fail(status.error().code,
                fmt::format("{}; no private daemon is started, since --socket or WEIR_SOCKET names the socket",
                            status.error().message));
  if (!vgpu.empty())
    return AwaitDaemon(places, "no daemon runs, and the vGPU '" + vgpu + "' needs one that stays",
                       "start it with 'weir serve'");
  WEIR_TRY_STATUS(platform::MakeFolder(places.run_dir, 0700));
  const std::string lock_path = places.run_dir + "/private.lock";
  const Fd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  WEIR_TRY_STATUS(LockRunDir(lock, lock_path));
  if (Answers(places.socket)) return Ok();  // another process has started the daemon meanwhile
  return StartPrivateDaemon(places);
}

}  // namespace weir::cli
