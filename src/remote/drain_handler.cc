// SPDX-License-Identifier: Apache-2.0
#include "remote/drain_handler.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "platform/spawn.h"

namespace weir::remote {
namespace {

constexpr std::size_t kOutputBytesMax = 4096;

void SayDraining(const std::string& text) { std::fprintf(stderr, "weir: %s\n", text.c_str()); }

/// Reads a pipe whose writers have closed it.
std::string TextIn(int pipe) {
  std::string text(kOutputBytesMax, '\0');
  const ssize_t got = ::read(pipe, text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

DrainHandler::~DrainHandler() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

void DrainHandler::See(Instant now, const std::string& why) {
  Reap(now);
  if (command_.empty()) {
    if (why.empty() || said_) return;
    said_ = true;
    return SayDraining(program_ + ": its node asks it to leave: " + why + hint_);
  }
  if (timer_.TryAt(now, !why.empty())) Start(now, why);
}

void DrainHandler::Start(Instant now, const std::string& why) {
  SayDraining(program_ + ": its node asks it to leave: " + why + "; it is being moved");
  int ends[2] = {-1, -1};
  Status started =
      ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 ? Ok() : Status(platform::ErrnoError("making a pipe", errno));
  if (started) {
    output_ = platform::Fd(ends[0]);
    const platform::Fd writes(ends[1]);
    const auto pid = platform::Spawn({.argv = command_, .piped_fd = writes.get()});
    if (pid)
      pid_ = *pid;
    else
      started = pid.error();
  }
  if (started) return;
  SayDraining(program_ + ": it can't be moved: " + started.error().message);
  timer_.Ended(now);
}

void DrainHandler::Reap(Instant now) {
  int status = 0;
  if (pid_ == 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  pid_ = 0;
  timer_.Ended(now);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return SayDraining(program_ + ": " + TextIn(output_.get()));
  const auto pause_s = static_cast<long long>(SecondsOf(timer_.again_at() - now));
  SayDraining(program_ + ": it was not moved; not again within " + std::to_string(pause_s) + " s");
}

}  // namespace weir::remote
