// SPDX-License-Identifier: Apache-2.0
// One HTTP request over a new connection.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"
#include "platform/fd.h"

namespace weir::http {

/// Connects, sends the request, reads the whole answer and closes, all within `timeout`. Errors:
///   kUnavailable       the connection was refused, or closed before the answer was complete
///   kPermissionDenied  this user may not open the socket
///   kTimeout           no complete answer in time
///   kProtocol          the answer is not HTTP
///   kInvalidArgument   the path is too long for a socket; the host or the port is invalid
Result<Answer> AskUnix(const std::string& path, const Call& call, Duration timeout);
Result<Answer> AskTcp(const std::string& host, std::uint16_t port, const Call& call, Duration timeout);

/// The same over a connected, non-blocking Unix stream socket. `where` is for messages.
Result<Answer> AskOver(platform::Fd connected, const std::string& where, const Call& call, Duration timeout);

/// Encodes a name as one segment of a path.
std::string PercentEncode(std::string_view text);

}  // namespace weir::http
