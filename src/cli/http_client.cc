// SPDX-License-Identifier: Apache-2.0
#include "cli/http_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <optional>

namespace weir::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Stream = beast::basic_stream<asio::local::stream_protocol>;

constexpr std::uint64_t kReplyBytesMax = 32U << 20;  // a dump of 16,384 frames is about 1.5 MB

Error CannotConnect(const std::string& path, int error) {
  const std::string what = fmt::format("cannot reach a weir daemon at {}: {}", path, std::strerror(error));
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR:
      return Fail(Errc::kUnavailable, what + "; start one with 'weir serve', or name its socket with --socket");
    case EACCES:
    case EPERM: return Fail(Errc::kPermissionDenied, what + "; ask whoever runs the daemon for access to its socket");
    case EAGAIN:  // the backlog stayed full
      return Fail(Errc::kTimeout, what + "; the daemon does not take connections");
    default: return Fail(Errc::kUnavailable, what);
  }
}

/// Plain POSIX: Asio takes the EAGAIN of a full backlog for a connection under way, which Unix sockets don't have.
Result<int> Connect(const std::string& path, Duration timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Fail(Errc::kInvalidArgument,
                fmt::format("the socket path '{}' must have 1 to {} characters; give another with "
                            "--socket or --run-dir",
                            path, sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return CannotConnect(path, errno);
  timeval limit{};
  limit.tv_sec = timeout / seconds(1);
  limit.tv_usec = timeout % seconds(1) / microseconds(1);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));  // bounds connect() too
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(fd);
    return CannotConnect(path, error);
  }
  return fd;
}

Error ExchangeError(const std::string& path, const HttpRequest& request, const beast::error_code& error,
                    Duration timeout) {
  const std::string what = fmt::format("asked the daemon at {} for {} {}", path, request.method, request.target);
  if (error == beast::error::timeout)
    return Fail(Errc::kTimeout, fmt::format("{}: no reply within {:.1f} s; is the daemon stopped or overloaded?", what,
                                            SecondsOf(timeout)));
  const bool hung_up = error == http::error::end_of_stream || error == http::error::partial_message ||
                       error == asio::error::eof || error == asio::error::connection_reset ||
                       error == asio::error::broken_pipe;
  if (hung_up)
    return Fail(Errc::kUnavailable, what + ": it hung up before the reply was complete; see its log, and try again");
  if (error.category() == make_error_code(http::error::bad_version).category())
    return Fail(Errc::kProtocol,
                fmt::format("{}: the reply isn't the HTTP that was expected ({}); does another program "
                            "listen there?",
                            what, error.message()));
  return Fail(Errc::kIo, fmt::format("{}: {}", what, error.message()));
}

}  // namespace

Result<HttpReply> AskOverUnixSocket(const std::string& socket_path, const HttpRequest& request, Duration timeout) {
  WEIR_TRY(const int fd, Connect(socket_path, timeout));
  asio::io_context io;
  Stream stream(io);
  beast::error_code error;
  stream.socket().assign(asio::local::stream_protocol(), fd, error);
  if (error) {
    close(fd);
    return ExchangeError(socket_path, request, error, timeout);
  }
  http::request<http::string_body> message(http::string_to_verb(request.method), request.target, 11);
  message.set(http::field::host, "weir");
  message.set(http::field::accept, "application/json");
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  message.keep_alive(false);
  message.body() = request.body;
  message.prepare_payload();

  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kReplyBytesMax);
  stream.expires_after(timeout);
  http::async_write(stream, message, [&](beast::error_code written, std::size_t) {
    error = written;
    // A server may refuse a request, and hang up, before it has read all of it: its reply is worth reading even then.
    if (written && written != asio::error::broken_pipe) return;
    http::async_read(stream, buffer, parser, [&](beast::error_code read, std::size_t) { error = read; });
  });
  io.run();
  if (error) return ExchangeError(socket_path, request, error, timeout);
  return HttpReply{parser.get().result_int(), std::move(parser.get().body())};
}

}  // namespace weir::cli
