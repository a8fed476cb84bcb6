// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 over a Unix or a TCP socket: bounded requests, bounded time, one handler that may answer later.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/message.h"

namespace weir::http {

/// Answers a request: called once, in the loop's thread, at once or later. After the client has gone it does nothing.
/// A request that is dropped without an answer, or whose handler throws, is answered 500.
using Respond = std::function<void(Reply)>;
using Handler = std::function<void(const Request&, Respond)>;

/// Asked when a request's head has come and before its body is read. A reply refuses the request: it is sent, the body
/// is not read, and the connection is closed.
using Refuse = std::function<std::optional<Reply>(const Request& head)>;

struct Limits {
  std::size_t request_bytes = 64 * 1024;  // of a body
  std::size_t connections = 128;          // beyond it a connection is closed at once: those that are served stay served
  std::size_t connections_per_address = 128;  // the same for those from one address; TCP only
  Refuse refuse{};                            // empty: nobody is refused
};

class Server {
 public:
  /// Listens at `path` with mode 0660, replacing a stale socket. The caller knows that nobody else serves there.
  static Result<std::unique_ptr<Server>> ListenUnix(boost::asio::io_context& loop, const std::string& path,
                                                    const Limits& limits, Handler handler);
  /// `host`: a numeric address or a name of this machine's; `port` 0: any that is free.
  static Result<std::unique_ptr<Server>> ListenTcp(boost::asio::io_context& loop, const std::string& host,
                                                   std::uint16_t port, const Limits& limits, Handler handler);
  virtual ~Server() = default;
  /// 0 of a Unix socket.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace weir::http
