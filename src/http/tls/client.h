// SPDX-License-Identifier: Apache-2.0
// Requests to a service on another machine, with what the service asks for: a token of TLS, a bearer token, or nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"
#include "net/tls.h"

namespace weir::http::tls {

struct Access {
  std::string bearer{};                        // sent in the clear; empty: none
  std::optional<net::TlsIdentity> identity{};  // absent: no TLS
};

/// The access that a file gives: a token of `weir keys token`, or a bearer token, which is the file's first line. Only
/// its owner may be able to read it. kPermissionDenied; kInvalidArgument; those of net::TlsIdentity::OfToken.
Result<Access> ReadAccess(const std::string& token_file);

/// The access that a text gives: that of a token's file, or a bearer token. `path` is for messages.
Result<Access> AccessOf(const std::string& text, const std::string& path);

/// As AskTcp (http/client.h), over TLS if `access` says so. Further errors: kPermissionDenied, one side refused the
/// other's certificate.
Result<Answer> Ask(const std::string& host, std::uint16_t port, const Access& access, Call call, Duration timeout);

}  // namespace weir::http::tls
