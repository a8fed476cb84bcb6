// SPDX-License-Identifier: Apache-2.0
// Addresses of servers as users write them, and the comparison of tokens.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weir::http {

struct Address {
  std::string host;
  std::uint16_t port = 0;
  /// The address in the syntax of ParseAddress, which is also that of a request's Host line.
  [[nodiscard]] std::string Text() const;
};

/// Parses "HOST:PORT" or "[::1]:PORT"; `host` then has no brackets. kInvalidArgument: the text is neither.
Result<Address> ParseAddress(const std::string& text);
/// True for 127.0.0.0/8, ::1 and localhost. A name that only begins with "127." is not one of them.
bool IsLoopback(const std::string& host);
/// Why a page for browsers cannot be served at this address; empty: it can. A browser sends the address that it was
/// given in the Host line, so it must be one address and not all addresses of a machine. `plain`: the page has no
/// token, which is allowed only at loopback addresses.
std::string ProblemOfPage(const Address& address, bool plain);
/// Compares in constant time, so that the time does not reveal where two tokens differ.
bool SameToken(const std::string& given, const std::string& ours);

}  // namespace weir::http
