// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on a Unix or TCP socket: bounded requests, bounded time, one handler that may answer later.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/message.h"
#include "platform/fd.h"

namespace weir::http {

/// Answers a request. Must be called once, in the loop's thread, at once or later. No effect after the client has
/// disconnected. A request that is dropped without an answer, or whose handler throws, gets status 500, or 503 once the
/// loop has stopped.
using Respond = std::function<void(Reply)>;
using Handler = std::function<void(const Request&, Respond)>;

/// Called when a request's head has arrived, before its body is read. A returned reply refuses the request: it is sent,
/// the body is not read, and the connection is closed.
using Refuse = std::function<std::optional<Reply>(const Request& head)>;

/// Bodies and replies up to this size may be under way on every connection.
inline constexpr std::size_t kLargeBody = 64 * 1024;

struct Limits {
  std::size_t request_bytes = 64 * 1024;  // of a request's body
  /// With `too_large`: the limit of this request, at most `request_bytes`. Empty: it is the same for all.
  std::function<std::size_t(const Request& head)> request_bytes_of{};
  std::size_t connections = 128;              // further connections are closed at once
  std::size_t connections_per_address = 128;  // the same limit for each peer address and each holder of a token
  /// Bytes of the bodies over kLargeBody that are received or handled at the same time, of all clients and of one: the
  /// holder of a token, else a peer address or the user of a Unix socket. Further ones get status 503 before they are
  /// read.
  std::size_t large_bytes = std::size_t{512} << 20;
  std::size_t large_bytes_of_one = std::size_t{128} << 20;
  /// The same for replies over kLargeBody that clients have not read yet. In place of further ones status 503 is sent.
  std::size_t reply_bytes = std::size_t{512} << 20;
  std::size_t reply_bytes_of_one = std::size_t{128} << 20;
  Refuse refuse{};  // empty: no request is refused
  /// Lines in the head of every reply, also of a reply to a malformed request.
  std::vector<std::pair<std::string, std::string>> headers{};
  /// The reply to a body over `request_bytes`, sent once `refuse` has accepted the head. Empty: status 400, without a
  /// call of `refuse`.
  std::optional<Reply> too_large{};
};

class Server {
 public:
  /// Listens at `path` with mode 0660 and replaces a stale socket. The caller must ensure that no other process serves
  /// there.
  static Result<std::unique_ptr<Server>> ListenUnix(boost::asio::io_context& loop, const std::string& path,
                                                    const Limits& limits, Handler handler);
  /// `host`: a numeric address or a name of this machine; `port` 0: any free port.
  static Result<std::unique_ptr<Server>> ListenTcp(boost::asio::io_context& loop, const std::string& host,
                                                   std::uint16_t port, const Limits& limits, Handler handler);
  /// Listens nowhere, and serves the connections of Adopt.
  static std::unique_ptr<Server> Adopting(boost::asio::io_context& loop, const Limits& limits, Handler handler);

  virtual ~Server() = default;
  /// Serves a connected, non-blocking Unix stream socket, behind which `holder` is. Called in the loop's thread.
  virtual void Adopt(platform::Fd connected, const Holder& holder) = 0;
  /// 0 for a Unix socket.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace weir::http
