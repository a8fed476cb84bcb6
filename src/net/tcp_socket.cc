// SPDX-License-Identifier: Apache-2.0
#include "net/tcp_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "platform/clock.h"

namespace weir::net {
namespace {

/// How often a wait checks whether the peer has vanished.
constexpr Duration kLookAgain = seconds(2);

timespec TimespecOf(Duration duration) {
  const auto whole = std::chrono::duration_cast<seconds>(duration);
  return {static_cast<time_t>(whole.count()), static_cast<long>((duration - whole).count())};
}

void SetOption(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // errors are ignored: each option is useful without the others
}

}  // namespace

std::string HostAndPort(std::string_view host, std::string_view port) {
  if (host.find(':') == std::string_view::npos) return fmt::format("{}:{}", host, port);
  return fmt::format("[{}]:{}", host, port);
}

std::string PeerText(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "a peer that has gone";
  // An IPv4 peer of a socket that listens on all addresses has a mapped IPv6 address.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view name(host);
  const bool is_mapped = name.starts_with(kMapped) && name.find('.') != std::string_view::npos;
  return HostAndPort(is_mapped ? name.substr(kMapped.size()) : name, port);
}

bool IsOfThisMachine(int fd) {
  const auto address_of = [fd](auto get_name) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    if (get_name(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return std::string();
    if (name.ss_family == AF_INET) {
      const in_addr& address = reinterpret_cast<const sockaddr_in&>(name).sin_addr;
      return std::string(reinterpret_cast<const char*>(&address), sizeof address);
    }
    const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
    return name.ss_family == AF_INET6 ? std::string(reinterpret_cast<const char*>(&address), sizeof address)
                                      : std::string();
  };
  const std::string here = address_of(::getsockname);
  return !here.empty() && here == address_of(::getpeername);
}

TcpSocket::TcpSocket(platform::Fd connected) : fd_(std::move(connected)), peer_(PeerText(fd_.get())) {
  const int fd = fd_.get();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // On an idle connection the kernel sends a probe after 10 s. It ends the connection when two probes, 5 s apart, stay
  // unanswered.
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
  // TCP_USER_TIMEOUT is not used: with it Linux also ends connections whose peer acknowledges but does not read, such
  // as a paused vGPU. HasVanished tells the two apart. SO_SNDBUF and SO_RCVBUF are not set, because either disables the
  // kernel's buffer tuning.
}

/// Whether sent data has had no answer for kVanishedAfter. A peer that merely does not read answers every probe.
bool TcpSocket::HasVanished() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  // Zero-window probes are up to two minutes apart, and one or two may be in flight or lost.
  constexpr int kProbesLost = 3;
  const bool asked = info.tcpi_retransmits > 0 || info.tcpi_probes >= kProbesLost;
  return asked && milliseconds(info.tcpi_last_ack_recv) >= kVanishedAfter;
}

bool TcpSocket::Await(short events, Duration timeout) {
  const Instant begin = platform::Now();
  for (;;) {
    // After shutdown(2) poll reports the socket as readable, writable and hung up, so that no other descriptor is
    // needed.
    pollfd entry{fd_.get(), events, 0};
    const Duration left = std::max(timeout - (platform::Now() - begin), Duration::zero());
    const timespec wait = TimespecOf(std::min(left, kLookAgain));
    const int ready = ::ppoll(&entry, 1, &wait, nullptr);
    if (ready > 0 || shut_) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next call on the socket reports the error
    if (ready == 0 && HasVanished()) {
      vanished_ = true;
      Shutdown();
      return true;
    }
    if (left == Duration::zero()) return false;
  }
}

void TcpSocket::Shutdown() {
  shut_ = true;
  ::shutdown(fd_.get(), SHUT_RDWR);
}

Error TcpSocket::EndedBy(int error_number) const {
  if (vanished_ || error_number == ETIMEDOUT || error_number == EHOSTUNREACH || error_number == ENETUNREACH)
    return Fail(Errc::kUnavailable,
                fmt::format("{} has vanished: no answer for {:.0f} s", peer_, SecondsOf(kVanishedAfter)));
  if (shut_) return Fail(Errc::kUnavailable, fmt::format("the connection to {} was ended on this side", peer_));
  if (error_number == 0) return Fail(Errc::kUnavailable, "closed by the other side, " + peer_);
  return Fail(Errc::kUnavailable,
              platform::ErrnoError("the connection to " + peer_ + " was cut", error_number).message);
}

std::function<void()> EndOf(const platform::Fd& socket) {
  const auto same = std::make_shared<platform::Fd>(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  return [same] {
    if (*same) ::shutdown(same->get(), SHUT_RDWR);
  };
}

}  // namespace weir::net
