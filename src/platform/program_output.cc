// SPDX-License-Identifier: Apache-2.0
#include "platform/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "platform/clock.h"
#include "platform/fd.h"
#include "platform/spawn.h"

namespace weir::platform {
namespace {

/// Reads until the other end is closed.
Status ReadAll(int from, const std::string& program, Instant deadline, std::size_t bytes_max, std::string& text) {
  std::array<char, 4096> part{};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(std::max(deadline - Now(), Duration{0}));
    pollfd readable{.fd = from, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, static_cast<int>(std::min(left, milliseconds(60'000)).count()));
    if (ready == 0 && Now() >= deadline) return Fail(Errc::kTimeout, program + " did not end in time");
    if (ready <= 0) continue;
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got == 0) return Ok();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("reading what " + program + " prints", errno);
    if (text.size() + static_cast<std::size_t>(got) > bytes_max)
      return Fail(Errc::kResourceExhausted, program + " prints more than " + std::to_string(bytes_max) + " bytes");
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<ProgramOutput> OutputOf(const std::vector<std::string>& argv, Duration at_most, std::size_t bytes_max) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("making a pipe for " + argv[0], errno);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  WEIR_TRY(const pid_t pid, Spawn({.argv = argv, .output_fd = write_end.get()}));
  write_end.Reset();
  ProgramOutput output;
  const Status read = ReadAll(read_end.get(), argv[0], Now() + at_most, bytes_max, output.text);
  if (!read) ::kill(-pid, SIGKILL);  // its process group, see Spawn
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  WEIR_TRY_STATUS(read);
  output.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return output;
}

}  // namespace weir::platform
