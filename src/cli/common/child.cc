// SPDX-License-Identifier: Apache-2.0
#include "cli/common/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>

#include "cli/common/program.h"

namespace weir::cli {
namespace {

constexpr Duration kGrace = seconds(2);  // between the request to end and the kill
constexpr std::size_t kTailLines = 4;

/// The arguments of execve. Made before fork, because the child may only call async-signal-safe functions.
struct Image {
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;
  std::string windows;  // the path of a Windows program, which a shell would read as a script; empty: another program

  explicit Image(const ChildSpec& spec) : arguments(spec.argv) {
    auto is_replaced = [&spec](const std::string& entry) {
      for (const auto& [name, value] : spec.environment)
        if (entry.starts_with(name + "=")) return true;
      return false;
    };
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (!is_replaced(*entry)) environment.emplace_back(*entry);
    for (const auto& [name, value] : spec.environment) environment.push_back(fmt::format("{}={}", name, value));
    argv = ArgvOf(arguments);
    envp = ArgvOf(environment);
    if (const auto program = FindProgram(spec.argv[0]); program && program->windows) windows = program->path;
  }
};

/// Descriptors of the child; -1: inherited.
struct Streams {
  int in = -1, out = -1, kept = -1;
};

[[noreturn]] void Become(const Image& image, const Streams& streams, int error_fd, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl took effect
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (streams.in >= 0) dup2(streams.in, STDIN_FILENO);
  if (streams.out >= 0) {
    dup2(streams.out, STDOUT_FILENO);
    dup2(streams.out, STDERR_FILENO);
  }
  if (streams.kept >= 0) fcntl(streams.kept, F_SETFD, 0);
  if (!image.windows.empty())
    execve(image.windows.c_str(), image.argv.data(), image.envp.data());
  else
    execvpe(image.argv[0], image.argv.data(), image.envp.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(error_fd, &error, sizeof(error));
  _exit(127);
}

}  // namespace

Result<Child> Child::Start(const ChildSpec& spec) {
  const Image image(spec);
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool logs = spec.output_fd < 0 && !spec.log_path.empty();
  const int log_fd = logs ? open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  const bool ours = spec.output_fd < 0 && !logs;
  const Streams streams{ours && isatty(STDIN_FILENO) == 0 ? -1 : null_fd, logs ? log_fd : spec.output_fd, spec.kept_fd};
  int ends[2] = {-1, -1};
  const bool ready = null_fd >= 0 && (log_fd >= 0 || !logs) && pipe2(ends, O_CLOEXEC) == 0;
  const pid_t parent = getpid();
  const pid_t pid = ready ? fork() : -1;
  int error = errno;
  if (pid == 0) Become(image, streams, ends[1], parent);
  for (const int fd : {null_fd, log_fd, ends[1]})
    if (fd >= 0) close(fd);
  if (pid > 0) {
    setpgid(pid, pid);  // in both processes, whichever runs first
    if (read(ends[0], &error, sizeof(error)) != static_cast<ssize_t>(sizeof(error)))
      error = 0;  // exec closed the pipe: it succeeded
  }
  if (ends[0] >= 0) close(ends[0]);
  if (error == 0 && pid > 0) return Child(pid);
  if (pid > 0) waitpid(pid, nullptr, 0);
  const Errc kind = error == ENOENT ? Errc::kNotFound : error == ENOEXEC ? Errc::kUnavailable : Errc::kIo;
  const std::string why = WhyNotExecuted(spec.argv[0], !image.windows.empty(), error);
  return Fail(kind, fmt::format("cannot start {}: {}", spec.argv[0], why));
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    Stop();
    pid_ = std::exchange(other.pid_, -1);
    ended_ = std::move(other.ended_);
    exit_code_ = other.exit_code_;
  }
  return *this;
}

std::optional<std::string> Child::Ended() {
  int status = 0;
  if (!ended_ && pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    ended_ = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                 : fmt::format("exit code {}", WEXITSTATUS(status));
  }
  return ended_;
}

void Child::Stop() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGTERM);
  constexpr int kStepMs = 10;
  for (Duration waited{0}; !Ended() && waited < kGrace; waited += milliseconds(kStepMs)) poll(nullptr, 0, kStepMs);
  kill(-pid_, SIGKILL);  // the rest of the group, even if its leader has ended
  if (!ended_) waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string LogTail(const std::string& path) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    lines.push_back(line);
    if (lines.size() > kTailLines) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : " | ") + line;
  return text.empty() ? "(it printed nothing)" : text;
}

}  // namespace weir::cli
