// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 over a Unix stream socket: bounded requests, bounded time, one handler. The only file that includes Beast.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace weir::daemon {

inline constexpr std::size_t kRequestBytesMax = 64 * 1024;
inline constexpr std::size_t kConnectionsMax = 128;

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // behind '?', not decoded
  std::string body;
  uid_t peer_uid = 0;
  pid_t peer_pid = 0;
};
struct HttpReply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
};
using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

class HttpServer {
 public:
  /// Listens at `path` with mode 0660, replacing a stale socket. The caller knows that nobody else serves there.
  static Result<std::unique_ptr<HttpServer>> Listen(boost::asio::io_context& loop, const std::string& path,
                                                    HttpHandler handler);
  virtual ~HttpServer() = default;
};

}  // namespace weir::daemon
