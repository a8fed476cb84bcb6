// SPDX-License-Identifier: Apache-2.0
// Addresses of managers: HOST:PORT, and lists of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::cluster {

struct Address {
  std::string host;
  std::uint16_t port = 0;
  [[nodiscard]] std::string Text() const { return host + ":" + std::to_string(port); }
};

/// "HOST:PORT", "[::1]:PORT" (the host without brackets). kInvalidArgument.
Result<Address> ParseAddress(const std::string& text);
/// A list separated by commas, with at least one address.
Result<std::vector<Address>> ParseAddresses(const std::string& text);
/// True for 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(const std::string& host);
/// A bearer token: the first line of a file that only its owner can read. kPermissionDenied, kInvalidArgument.
Result<std::string> ReadTokenFile(const std::string& path);
/// Compares in constant time, so that the time does not tell where two tokens differ.
bool SameToken(const std::string& given, const std::string& ours);

}  // namespace weir::cluster
