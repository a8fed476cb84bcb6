// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "http/async_client.h"
#include "platform/fd.h"

namespace weir::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Protocol = asio::generic::stream_protocol;  // covers Unix and TCP with one set of template instances
using Stream = beast::basic_stream<Protocol>;

constexpr std::uint64_t kAnswerBytesMax = 80U << 20;  // a blob has at most 64 MiB

struct Connected {
  platform::Fd fd;
  int family = 0;
};

Error CannotReach(const std::string& where, int error, const std::string& if_absent) {
  const std::string what = fmt::format("cannot reach {}: {}", where, std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM: return Fail(Errc::kPermissionDenied, what + "; ask the user who runs it for access to its socket");
    case EAGAIN:  // the backlog stayed full
      return Fail(Errc::kTimeout, what + "; it does not take connections");
    case ETIMEDOUT: return Fail(Errc::kTimeout, what);
    default: return Fail(Errc::kUnavailable, if_absent.empty() ? what : what + "; " + if_absent);
  }
}

/// Uses plain POSIX calls, because Asio treats EAGAIN as a connection in progress. Unix sockets have none; for them
/// EAGAIN means a full backlog. With a `timeout` of zero, the call fails if it would have to wait.
Result<Connected> ConnectUnix(const std::string& path, const std::string& if_absent, Duration timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Fail(Errc::kInvalidArgument,
                fmt::format("the socket path '{}' must have 1 to {} characters", path, sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  const int flags = timeout > Duration{0} ? SOCK_CLOEXEC : SOCK_CLOEXEC | SOCK_NONBLOCK;
  platform::Fd fd(::socket(AF_UNIX, SOCK_STREAM | flags, 0));
  if (!fd) return CannotReach(path, errno, if_absent);
  timeval limit{};
  limit.tv_sec = timeout / seconds(1);
  limit.tv_usec = timeout % seconds(1) / microseconds(1);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));  // bounds connect() too
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return CannotReach(path, errno, if_absent);
  return Connected{std::move(fd), AF_UNIX};
}

/// Returns 0, or the error of connecting to one address.
int ConnectWithin(int fd, const addrinfo& address, Duration timeout) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd polled{fd, POLLOUT, 0};
  const int ready = ::poll(&polled, 1, static_cast<int>(timeout / milliseconds(1)) + 1);
  if (ready == 0) return ETIMEDOUT;
  if (ready < 0) return errno;
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// Detects a machine that has vanished: data or a probe that it does not acknowledge within three seconds ends the
/// connection, also while the client only waits.
void NoticeIfItVanishes(int fd) {
  constexpr int kOn = 1, kAfterSeconds = 1, kEverySeconds = 1, kTimes = 3;
  constexpr unsigned kUnheardMs = 3'000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kAfterSeconds, sizeof kAfterSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kEverySeconds, sizeof kEverySeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kTimes, sizeof kTimes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnheardMs, sizeof kUnheardMs);
}

Result<Connected> ConnectTcp(const std::string& host, std::uint16_t port, const std::string& if_absent,
                             Duration timeout) {
  const std::string where = fmt::format("{}:{}", host, port);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    return Fail(
        error == EAI_AGAIN ? Errc::kUnavailable : Errc::kInvalidArgument,
        fmt::format("cannot reach {}: {}", where, error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    platform::Fd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = fd ? ConnectWithin(fd.get(), *at, timeout) : errno;
    if (error != 0) continue;
    NoticeIfItVanishes(fd.get());
    return Connected{std::move(fd), at->ai_family};
  }
  return CannotReach(where, error, if_absent);
}

Error ExchangeError(const std::string& what, const beast::error_code& error, Duration timeout) {
  if (error == beast::error::timeout)
    return Fail(Errc::kTimeout,
                fmt::format("{}: no reply within {:.1f} s; is it stopped or overloaded?", what, SecondsOf(timeout)));
  if (error == asio::error::timed_out || error == asio::error::host_unreachable ||
      error == asio::error::network_unreachable)
    return Fail(Errc::kUnavailable, what + ": its machine is not heard of any more");
  const bool hung_up = error == beast::http::error::end_of_stream || error == beast::http::error::partial_message ||
                       error == asio::error::eof || error == asio::error::connection_reset ||
                       error == asio::error::broken_pipe;
  if (hung_up)
    return Fail(Errc::kUnavailable,
                what + ": it closed the connection before the reply was complete; see its log, and try again");
  if (error.category() == make_error_code(beast::http::error::bad_version).category())
    return Fail(Errc::kProtocol,
                fmt::format("{}: the reply isn't the expected HTTP ({}); another program may listen there", what,
                            error.message()));
  return Fail(Errc::kIo, fmt::format("{}: {}", what, error.message()));
}

/// One request and its answer. Lives until the answer is complete, in the handlers of its operations.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& loop, std::string what, Duration timeout, AnswerHandler then)
      : stream_(loop), what_(std::move(what)), timeout_(timeout), then_(std::move(then)) {}

  void Start(Connected connected, const Call& call, std::uint64_t answer_bytes_max) {
    beast::error_code error;
    stream_.socket().assign(Protocol(connected.family, 0), connected.fd.get(), error);
    if (error) return asio::post(stream_.get_executor(), [self = shared_from_this(), error] { self->End(error); });
    (void)connected.fd.Release();
    message_.method(beast::http::string_to_verb(call.method));
    message_.target(call.target);
    message_.version(11);
    message_.set(beast::http::field::host, "weir");
    message_.set(beast::http::field::accept, "application/json");
    if (!call.bearer.empty()) message_.set(beast::http::field::authorization, "Bearer " + call.bearer);
    if (!call.body.empty()) message_.set(beast::http::field::content_type, call.content_type);
    for (const auto& [name, value] : call.headers) message_.set(name, value);
    message_.keep_alive(false);
    message_.body() = call.body;
    message_.prepare_payload();
    parser_.body_limit(answer_bytes_max);
    stream_.expires_after(timeout_);
    beast::http::async_write(stream_, message_, [self = shared_from_this()](beast::error_code written, std::size_t) {
      // A server may refuse a request and close before it has read all of it; its reply is read even then.
      if (written && written != asio::error::broken_pipe) return self->End(written);
      self->ReadHead();
    });
  }

 private:
  /// Reads the head and the body in two steps. Beast 1.74 reports no error for a body beyond the limit if it reads both
  /// at once.
  void ReadHead() {
    beast::http::async_read_header(stream_, buffer_, parser_,
                                   [self = shared_from_this()](beast::error_code error, std::size_t) {
                                     if (error) return self->End(error);
                                     self->ReadBody();
                                   });
  }
  void ReadBody() {
    beast::http::async_read(stream_, buffer_, parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) { self->End(error); });
  }
  void End(const beast::error_code& error) {
    const AnswerHandler then = std::exchange(then_, nullptr);
    if (error) return then(ExchangeError(what_, error, timeout_));
    then(Answer{parser_.get().result_int(), std::move(parser_.get().body())});
  }

  Stream stream_;
  const std::string what_;
  const Duration timeout_;
  AnswerHandler then_;
  beast::http::request<beast::http::string_body> message_;
  beast::flat_buffer buffer_;
  beast::http::response_parser<beast::http::string_body> parser_;
};

std::string WhatIsAsked(const std::string& where, const Call& call) {
  return fmt::format("asked {} for {} {}", where, call.method, call.target);
}

Result<Answer> AskNow(Connected connected, const std::string& where, const Call& call, Duration timeout) {
  asio::io_context io;
  Result<Answer> result = Fail(Errc::kInternal, "the exchange did not end");
  const auto exchange = std::make_shared<Exchange>(io, WhatIsAsked(where, call), timeout,
                                                   [&result](Result<Answer> answer) { result = std::move(answer); });
  exchange->Start(std::move(connected), call, kAnswerBytesMax);
  io.run();
  return result;
}

}  // namespace

Result<Answer> AskUnix(const std::string& path, const Call& call, Duration timeout) {
  WEIR_TRY(Connected connected, ConnectUnix(path, call.if_absent, timeout));
  return AskNow(std::move(connected), path, call, timeout);
}

Result<Answer> AskTcp(const std::string& host, std::uint16_t port, const Call& call, Duration timeout) {
  WEIR_TRY(Connected connected, ConnectTcp(host, port, call.if_absent, timeout));
  return AskNow(std::move(connected), fmt::format("{}:{}", host, port), call, timeout);
}

Result<Answer> AskOver(platform::Fd connected, const std::string& where, const Call& call, Duration timeout) {
  return AskNow({std::move(connected), AF_UNIX}, where, call, timeout);
}

void AskUnixAsync(asio::io_context& loop, const std::string& path, const Call& call, Duration timeout,
                  std::uint64_t answer_bytes_max, AnswerHandler then) {
  auto connected = ConnectUnix(path, call.if_absent, Duration{0});
  if (!connected) {
    asio::post(loop,
               [then = std::move(then), error = std::move(connected).error()]() mutable { then(std::move(error)); });
    return;
  }
  std::make_shared<Exchange>(loop, WhatIsAsked(path, call), timeout, std::move(then))
      ->Start(std::move(*connected), call, answer_bytes_max);
}

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '_' || c == '.' || c == '~';
    if (unreserved)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace weir::http
