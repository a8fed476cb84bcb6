// SPDX-License-Identifier: Apache-2.0
// One HTTPS request to a server whose certificate an authority of the system has signed, or one of the operator's.
// (http/tls speaks with Weir's own services, whose certificates are those of 'weir keys'.)
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"

namespace weir::drivers {

struct HttpsServer {
  std::string host;  // also the name that the certificate must have; an IPv6 address without brackets
  std::uint16_t port = 443;
  std::string authorities{};  // a file of certificates; empty: the system's
};

/// TLS 1.2 or later; redirects are not followed, proxies are those of the environment. Errors:
///   kUnavailable       nothing listens, or the connection ended before the whole answer
///   kPermissionDenied  the server's certificate is not trusted, or is another server's
///   kTimeout           no complete answer in time
///   kProtocol          the server does not speak TLS, or the answer is over 64 MiB
///   kInvalidArgument   the host is unknown, or `authorities` cannot be read
Result<http::Answer> AskHttps(const HttpsServer& server, const http::Call& call, Duration timeout);

}  // namespace weir::drivers
