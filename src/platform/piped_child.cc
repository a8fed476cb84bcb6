// SPDX-License-Identifier: Apache-2.0
#include "platform/piped_child.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "platform/clock.h"
#include "platform/spawn.h"

namespace weir::platform {
namespace {

/// Transfers `size` bytes. `move` sends or receives a part when the socket is ready for `events`.
template <typename Move>
Status MoveAll(int socket, short events, std::size_t size, Duration within, Move move) {
  const std::int64_t until_ns = NowNs() + within.count();
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = move(done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      continue;
    }
    if (n == 0) return Fail(Errc::kUnavailable, "it has ended");
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return Fail(Errc::kUnavailable, "it has ended");
    if (errno != EAGAIN) return ErrnoError("speaking to it", errno);
    const std::int64_t left_ms = (until_ns - NowNs() + 999'999) / 1'000'000;
    pollfd ready{socket, events, 0};
    if (left_ms <= 0 || ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 60'000))) == 0)
      if (NowNs() >= until_ns) return Fail(Errc::kTimeout, "it took too long");
  }
  return Ok();
}

}  // namespace

Result<PipedChild> PipedChild::Start(const std::vector<std::string>& argv) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoError("starting " + argv[0], errno);
  Fd ours(ends[0]);
  const Fd its(ends[1]);
  WEIR_TRY(const pid_t pid, Spawn({.argv = argv, .piped_fd = its.get()}));
  return PipedChild(pid, std::move(ours));
}

PipedChild::PipedChild(PipedChild&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), socket_(std::move(other.socket_)) {}

PipedChild& PipedChild::operator=(PipedChild&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(socket_, other.socket_);
  return *this;
}

PipedChild::~PipedChild() {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);  // the whole group, with its children
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status PipedChild::Send(std::span<const std::byte> bytes, Duration within) {
  return MoveAll(socket_.get(), POLLOUT, bytes.size(), within, [&](std::size_t done) {
    return ::send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

Status PipedChild::Receive(std::span<std::byte> bytes, Duration within) {
  return MoveAll(socket_.get(), POLLIN, bytes.size(), within, [&](std::size_t done) {
    return ::recv(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
  });
}

}  // namespace weir::platform
