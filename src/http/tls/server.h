// SPDX-License-Identifier: Apache-2.0
// An HTTP server that admits only holders of tokens, over TLS 1.3 (net/tls.h). A thread for each connection carries its
// bytes; requests are handled in the loop's thread, as by any http::Server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "http/server.h"
#include "net/door.h"
#include "net/stream.h"
#include "net/tls.h"

namespace weir::http::tls {

struct ServerOptions {
  net::Door::Limits connections{};
  http::Limits requests{};
  /// Called in any thread with each line to log about connections without access.
  std::function<void(const std::string& line)> refused{};
};

class Server {
 public:
  /// `Request::holder` has the role and the name of the client's token.
  static Result<std::unique_ptr<Server>> Listen(boost::asio::io_context& loop, const net::Endpoint& endpoint,
                                                const net::TlsIdentity& identity, ServerOptions options,
                                                Handler handler);
  /// Ends all connections.
  virtual ~Server() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace weir::http::tls
