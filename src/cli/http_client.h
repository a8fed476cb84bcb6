// SPDX-License-Identifier: Apache-2.0
// One HTTP request over a Unix socket. Boost.Beast stays behind this header: it takes long to compile.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weir::cli {

struct HttpRequest {
  std::string method;  // GET, POST, PUT, PATCH or DELETE
  std::string target;  // percent-encoded path and query
  std::string body;    // JSON, or empty
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

/// Connects, asks, reads the whole reply and closes, all within `timeout`. Errors:
///   kUnavailable       nobody listens there, or whoever did hung up before the reply was complete
///   kPermissionDenied  the socket isn't ours to open
///   kTimeout           no complete reply in time
///   kProtocol          what came back isn't HTTP
Result<HttpReply> AskOverUnixSocket(const std::string& socket_path, const HttpRequest& request, Duration timeout);

}  // namespace weir::cli
