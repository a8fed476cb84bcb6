// SPDX-License-Identifier: Apache-2.0
// One HTTP request over a connection of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"

namespace weir::http {

/// Connects, asks, reads the whole answer and closes, all within `timeout`. Errors:
///   kUnavailable       nobody listens there, or whoever did hung up before the answer was complete
///   kPermissionDenied  the socket isn't ours to open
///   kTimeout           no complete answer in time
///   kProtocol          what came back isn't HTTP
///   kInvalidArgument   a path too long for a socket; a host or a port that is none
Result<Answer> AskUnix(const std::string& path, const Call& call, Duration timeout);
Result<Answer> AskTcp(const std::string& host, std::uint16_t port, const Call& call, Duration timeout);

/// A name as one segment of a path.
std::string PercentEncode(std::string_view text);

}  // namespace weir::http
