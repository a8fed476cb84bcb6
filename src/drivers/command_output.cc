// SPDX-License-Identifier: Apache-2.0
#include "drivers/command_output.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "platform/clock.h"
#include "platform/fd.h"
#include "platform/process.h"
#include "platform/spawn.h"

namespace weir::drivers {
namespace {

Result<std::string> FindCommand(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string file = folders.substr(begin, end - begin) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return Fail(Errc::kNotFound, fmt::format("no program '{}' in PATH; check that its package is installed", name));
}

/// A command in its own process group; the destructor kills the group.
class RunningCommand {
 public:
  explicit RunningCommand(pid_t pid) : pid_(pid) {}
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;
  ~RunningCommand() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    Wait();
  }
  int Wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

/// Waits for data or the end of the stream. kTimeout.
Status WaitReadable(int fd, Instant deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - platform::Now()).count();
    if (left <= 0) return Fail(Errc::kTimeout, "it did not end in time");
    pollfd waited{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return Ok();
    if (ready < 0 && errno != EINTR) return platform::ErrnoError("waiting for its output", errno);
  }
}

/// Reads until the other side is closed.
Status ReadAll(int fd, Instant deadline, std::size_t bytes_max, std::string& text) {
  std::array<char, 16384> buffer{};
  for (;;) {
    WEIR_TRY_STATUS(WaitReadable(fd, deadline));
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ECONNRESET) return platform::ErrnoError("reading its output", errno);
    if (n <= 0) return Ok();
    if (text.size() + static_cast<std::size_t>(n) > bytes_max)
      return Fail(Errc::kResourceExhausted, fmt::format("its output exceeds {} bytes", bytes_max));
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

/// Waits for the process: a command may close its output and continue.
Status WaitForEnd(pid_t pid, Instant deadline) {
  const auto ended = platform::OpenPidFd(pid);
  if (!ended && ended.error().code == Errc::kNotFound) return Ok();
  if (!ended) return ended.error();
  return WaitReadable(ended->get(), deadline);
}

}  // namespace

Result<CommandOutput> RunCommand(const std::vector<std::string>& argv, Duration within, std::size_t bytes_max) {
  WEIR_TRY(std::string program, FindCommand(argv.at(0)));
  // A socket pair, because its other end also serves as the command's standard input, from which nothing can be read.
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return platform::ErrnoError("starting " + argv[0], errno);
  const platform::Fd ours(ends[0]);
  platform::Fd theirs(ends[1]);
  ::shutdown(ours.get(), SHUT_WR);
  platform::SpawnSpec spec{.argv = argv, .piped_fd = theirs.get()};
  spec.argv[0] = std::move(program);
  WEIR_TRY(const pid_t pid, platform::Spawn(spec));
  theirs.Reset();
  RunningCommand running(pid);
  CommandOutput output;
  const Instant deadline = platform::Now() + within;
  Status read = ReadAll(ours.get(), deadline, bytes_max, output.text);
  if (read) read = WaitForEnd(pid, deadline);
  if (!read)
    return Fail(read.error().code, fmt::format("ran '{}' for at most {:.1f} s: {}", fmt::join(argv, " "),
                                               SecondsOf(within), read.error().message));
  output.exit_code = running.Wait();
  return output;
}

}  // namespace weir::drivers
