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
  /// As ParseAddress reads it, and as the Host line of a request has it.
  [[nodiscard]] std::string Text() const;
};

/// "HOST:PORT", "[::1]:PORT" (the host without brackets). kInvalidArgument.
Result<Address> ParseAddress(const std::string& text);
/// True for 127.0.0.0/8, ::1 and localhost. A name that only begins with "127." is not one of them.
bool IsLoopback(const std::string& host);
/// Why a page for browsers can't be served there; empty: it can. Browsers name the address that they were given, so it
/// must be one address and not all of a machine. `plain`: without a token, which is only for loopback addresses.
std::string ProblemOfPage(const Address& address, bool plain);
/// Compares in constant time, so that the time does not tell where two tokens differ.
bool SameToken(const std::string& given, const std::string& ours);

}  // namespace weir::http
