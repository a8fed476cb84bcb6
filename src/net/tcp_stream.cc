// SPDX-License-Identifier: Apache-2.0
#include "net/tcp_stream.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "net/tcp_socket.h"
#include "net/without_sigpipe.h"
#include "platform/clock.h"

namespace weir::net {
namespace {

using platform::Fd;

std::string EndpointText(const Endpoint& endpoint) { return HostAndPort(endpoint.host, endpoint.port); }

struct AddressListFree {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListFree>;

Result<AddressList> AddressesOf(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const char* host = endpoint.host.empty() ? nullptr : endpoint.host.c_str();
  const int failed = ::getaddrinfo(host, endpoint.port.c_str(), &hints, &list);
  if (failed == 0) return AddressList(list);
  return Fail(failed == EAI_AGAIN ? Errc::kUnavailable : Errc::kNotFound,
              fmt::format("cannot find the host of {}: {}; check the name, or give its address", EndpointText(endpoint),
                          ::gai_strerror(failed)));
}

class TcpStream final : public Stream {
 public:
  explicit TcpStream(Fd connected) : socket_(std::move(connected)), sends_files_(!IsOfThisMachine(socket_.fd())) {}
  TcpStream(Fd connected, std::string peer, std::string peer_name)
      : socket_(std::move(connected), std::move(peer)), peer_name_(std::move(peer_name)) {}

  Result<std::size_t> TrySend(std::span<const iovec> parts) override;
  [[nodiscard]] bool sends_files() const override { return sends_files_; }
  Result<std::size_t> TrySendFile(int fd, std::uint64_t offset, std::size_t bytes) override;
  Result<std::size_t> TryReceive(std::span<std::byte> into) override;
  bool AwaitSend(Duration timeout) override { return socket_.Await(POLLOUT, timeout); }
  bool AwaitReceive(Duration timeout) override { return socket_.Await(POLLIN, timeout); }
  void Shutdown() override { socket_.Shutdown(); }
  [[nodiscard]] const std::string& peer() const override { return socket_.peer(); }
  [[nodiscard]] const std::string& peer_name() const override { return peer_name_; }
  [[nodiscard]] int fd() const override { return socket_.fd(); }

 private:
  TcpSocket socket_;
  std::string peer_name_;
  const bool sends_files_ = false;  // off for a process of this machine, where zero-copy costs more than it saves
};

Result<std::size_t> TcpStream::TrySend(std::span<const iovec> parts) {
  if (socket_.is_shut()) return socket_.EndedBy(0);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
  for (;;) {
    const ssize_t sent = ::sendmsg(socket_.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return socket_.EndedBy(errno);
  }
}

Result<std::size_t> TcpStream::TrySendFile(int fd, std::uint64_t offset, std::size_t bytes) {
  if (socket_.is_shut()) return socket_.EndedBy(0);
  const WithoutSigpipe quiet;
  for (;;) {
    auto at = static_cast<off_t>(offset);
    const ssize_t sent = ::sendfile(socket_.fd(), fd, &at, bytes);
    if (sent > 0) return static_cast<std::size_t>(sent);
    if (sent == 0) return Fail(Errc::kIo, "the memory's file is shorter than the data to send");
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return socket_.EndedBy(errno);
  }
}

Result<std::size_t> TcpStream::TryReceive(std::span<std::byte> into) {
  if (socket_.is_shut()) return socket_.EndedBy(0);
  if (into.empty()) return std::size_t{0};
  for (;;) {
    const ssize_t came = ::recv(socket_.fd(), into.data(), into.size(), MSG_DONTWAIT);
    if (came > 0) return static_cast<std::size_t>(came);
    if (came == 0) return socket_.EndedBy(0);
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return socket_.EndedBy(errno);
  }
}

/// Connects to one address. Returns 0 or the errno.
int ConnectOne(const addrinfo& address, Duration timeout, Fd& connected) {
  Fd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    pollfd entry{fd.get(), POLLOUT, 0};
    const Instant begin = platform::Now();
    for (int ready = 0; ready <= 0;) {
      const Duration left = timeout - (platform::Now() - begin);
      if (left <= Duration::zero()) return ETIMEDOUT;
      const auto left_ms = std::chrono::ceil<milliseconds>(left).count();
      ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 1'000'000)));
      if (ready < 0 && errno != EINTR) return errno;
    }
    int failed = 0;
    socklen_t size = sizeof failed;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return errno;
    if (failed != 0) return failed;
  }
  connected = std::move(fd);
  return 0;
}

std::string AddressText(const addrinfo& address) {
  char host[NI_MAXHOST] = {};
  return ::getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0 ? host
                                                                                                                : "?";
}

/// Tries every address of the name in turn. `failed`: the errno of each that was tried in vain.
Result<Fd> ConnectAny(const Endpoint& to, Duration timeout, std::vector<int>& failed) {
  WEIR_TRY(const AddressList addresses, AddressesOf(to, 0));
  const Instant deadline = platform::Now() + timeout;
  int left = 0;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) ++left;
  std::string tried;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next, --left) {
    Fd connected;
    // The remaining time is divided among the remaining addresses, so that one that never answers does not use it all.
    const int error = ConnectOne(*a, (deadline - platform::Now()) / left, connected);
    if (error == 0) return connected;
    failed.push_back(error);
    tried += (tried.empty() ? "" : ", ") + platform::ErrnoError(AddressText(*a), error).message;
  }
  const bool in_time = failed.empty() || failed.back() != ETIMEDOUT;
  return Fail(in_time ? Errc::kUnavailable : Errc::kTimeout,
              fmt::format("cannot connect to {} ({}); check that the node listens on that port, and that no firewall "
                          "is between",
                          EndpointText(to), tried));
}

/// Listens on one address. TcpListener::Listen retries with IPv4 on a kernel without IPv6.
Result<Fd> ListenOn(const addrinfo& address, const std::string& text) {
  Fd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return platform::ErrnoError("making a socket to listen on " + text, errno);
  const int on = 1, off = 0;
  // Without this option, connections of an earlier listener in TIME_WAIT would prevent the bind.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    Error error = platform::ErrnoError("listening on " + text, errno);
    if (error.code == Errc::kAlreadyExists) error.message += "; another program uses that port (see 'ss -ltnp')";
    if (error.code == Errc::kPermissionDenied) error.message += "; ports below 1024 are root's";
    return error;
  }
  return fd;
}

Result<std::uint16_t> PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return platform::ErrnoError("getsockname", errno);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

Result<Fd> ConnectSocket(const Endpoint& to, Duration timeout) {
  std::vector<int> failed;
  return ConnectAny(to, timeout, failed);
}

bool RefusesConnections(const Endpoint& to, Duration timeout) {
  std::vector<int> failed;
  const auto connected = ConnectAny(to, timeout, failed);
  return !connected && !failed.empty() && std::ranges::all_of(failed, [](int error) { return error == ECONNREFUSED; });
}

Result<std::unique_ptr<Stream>> ConnectTcp(const Endpoint& to, Duration timeout) {
  WEIR_TRY(Fd connected, ConnectSocket(to, timeout));
  return AdoptTcp(std::move(connected));
}

std::unique_ptr<Stream> AdoptTcp(Fd connected) { return std::make_unique<TcpStream>(std::move(connected)); }

std::string NetworkOf(int socket) {
  sockaddr_storage from{};
  socklen_t bytes = sizeof from;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&from), &bytes) != 0) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(from).sin_addr, text, sizeof text);
  } else if (from.ss_family == AF_INET6) {
    in6_addr address = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      ::inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof text);
    } else {
      std::fill_n(&address.s6_addr[8], 8, std::uint8_t{0});
      ::inet_ntop(AF_INET6, &address, text, sizeof text);
    }
  }
  return text;
}

std::unique_ptr<Stream> AdoptLocal(Fd connected, std::string peer, std::string peer_name) {
  return std::make_unique<TcpStream>(std::move(connected), std::move(peer), std::move(peer_name));
}

Result<TcpListener> TcpListener::Listen(const Endpoint& on) {
  // A socket on "::" accepts IPv4 connections too.
  const Endpoint wanted = on.host.empty() ? Endpoint{"::", on.port} : on;
  const std::string text = EndpointText(on);
  WEIR_TRY(const AddressList addresses, AddressesOf(wanted, AI_PASSIVE));
  Result<Fd> fd = ListenOn(*addresses, text);
  if (!fd && on.host.empty() && fd.error().code != Errc::kAlreadyExists) {
    WEIR_TRY(const AddressList ipv4, AddressesOf(Endpoint{"0.0.0.0", on.port}, AI_PASSIVE));
    fd = ListenOn(*ipv4, text);
  }
  if (!fd) return std::move(fd).error();
  WEIR_TRY(const std::uint16_t port, PortOf(fd->get()));
  return TcpListener(std::move(*fd), port);
}

Result<Fd> TcpListener::Accept() const {
  for (;;) {
    Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return fd;
    // accept(2) reports the error of a connection that ended while it was pending. The next connection may be good.
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == ENETDOWN || errno == EHOSTUNREACH ||
        errno == ENETUNREACH)
      continue;
    return platform::ErrnoError("accepting a connection", errno);
  }
}

}  // namespace weir::net
