// SPDX-License-Identifier: Apache-2.0
#include "http/tls/tunnel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "platform/clock.h"

namespace weir::http::tls {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;
/// An upper bound of each wait. A key update can make the stream ready without an event of its descriptor.
constexpr Duration kWaitMax = seconds(1);

/// Bytes on the way in one direction.
class Way {
 public:
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  [[nodiscard]] std::span<std::byte> Room() { return bytes_; }
  void Came(std::size_t count) { begin_ = 0, end_ = count; }
  [[nodiscard]] std::span<std::byte> Rest() { return std::span(bytes_).subspan(begin_, end_ - begin_); }
  void Went(std::size_t count) { begin_ += count; }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBufferBytes);
  std::size_t begin_ = 0, end_ = 0;
};

/// Bytes that a call of recv or send has moved, 0: none now; nullopt: the socket has ended.
std::optional<std::size_t> MovedBytes(ssize_t returned) {
  if (returned > 0) return static_cast<std::size_t>(returned);
  if (returned < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return std::nullopt;
}

class Tunnel {
 public:
  Tunnel(net::Stream& stream, int local, Duration patience)
      : stream_(stream), local_(local), patience_(patience), sent_(platform::Now()) {}

  void Run() {
    for (;;) {
      moved_ = false;
      if (!FromStream() || !FromLocal()) return;
      if (!moved_ && !Wait()) return;
    }
  }

 private:
  /// False: nothing more can be carried to the local socket.
  bool FromStream() {
    if (in_.empty() && !stream_ended_) {
      const auto came = stream_.TryReceive(in_.Room());
      if (came) in_.Came(*came);
      stream_ended_ = !came;
      moved_ |= came && *came > 0;
    }
    if (!in_.empty()) {
      const std::span<std::byte> rest = in_.Rest();
      const auto went = MovedBytes(::send(local_, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
      if (!went) return false;
      in_.Went(*went);
      moved_ |= *went > 0;
    }
    return !stream_ended_ || !in_.empty();
  }
  /// False: nothing more can be carried to the stream.
  bool FromLocal() {
    if (out_.empty() && !local_ended_) {
      const std::span<std::byte> room = out_.Room();
      const auto came = MovedBytes(::recv(local_, room.data(), room.size(), MSG_DONTWAIT));
      if (came) out_.Came(*came);
      local_ended_ = !came;
      moved_ |= came && *came > 0;
      sent_ = platform::Now();
    }
    if (!out_.empty()) {
      const iovec rest{out_.Rest().data(), out_.Rest().size()};
      const auto went = stream_.TrySend(std::span(&rest, 1));
      if (!went) return false;
      out_.Went(*went);
      moved_ |= *went > 0;
      if (*went > 0) sent_ = platform::Now();
    }
    return !local_ended_ || !out_.empty();
  }
  /// False: the other side has vanished while bytes for the local socket wait, or does not read.
  bool Wait() {
    Duration left = kWaitMax;
    if (!out_.empty()) left = std::min(left, sent_ + patience_ - platform::Now());
    if (left <= Duration{0}) return false;
    const auto events = [](bool to_read, bool to_write) {
      return static_cast<short>((to_read ? POLLIN : 0) | (to_write ? POLLOUT : 0));
    };
    pollfd watched[2] = {{stream_.fd(), events(in_.empty(), !out_.empty()), 0},
                         {local_, events(out_.empty() && !local_ended_, !in_.empty()), 0}};
    // poll reports a socket whose other end is closed at once, also where it is asked for nothing.
    if (watched[1].events == 0) watched[1].fd = -1;
    if (::poll(watched, 2, static_cast<int>(left / milliseconds(1)) + 1) < 0 && errno != EINTR) return false;
    return in_.empty() || (watched[0].revents & (POLLHUP | POLLERR)) == 0;
  }

  net::Stream& stream_;
  const int local_;
  const Duration patience_;
  Instant sent_;  // when the stream last took bytes, or had none to take
  Way in_, out_;
  bool stream_ended_ = false, local_ended_ = false, moved_ = false;
};

}  // namespace

void RunTunnel(net::Stream& stream, const platform::Fd& local, Duration patience) {
  Tunnel(stream, local.get(), patience).Run();
  stream.Shutdown();
}

Result<SocketPair> MakeSocketPair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return platform::ErrnoError("making a socket pair", errno);
  return SocketPair{.here = platform::Fd(ends[0]), .there = platform::Fd(ends[1])};
}

}  // namespace weir::http::tls
