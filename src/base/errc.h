// SPDX-License-Identifier: Apache-2.0
// All kinds of failure. The text, HTTP status and exit code of the command line are derived from this table.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weir {

enum class Errc : std::uint8_t {
  kInvalidArgument,
  kNotFound,
  kAlreadyExists,
  kBusy,
  kPermissionDenied,
  kResourceExhausted,
  kUnavailable,
  kProtocol,
  kVersionMismatch,
  kTimeout,
  kIo,
  kInternal,
};

struct ErrcEntry {
  Errc code;
  std::string_view name;      // stable, in JSON and in metrics
  std::uint16_t http_status;  // of the control API
  std::uint8_t exit_code;     // of `weir`
};

inline constexpr std::array kErrcTable{
    ErrcEntry{Errc::kInvalidArgument, "invalid-argument", 400, 2},
    ErrcEntry{Errc::kNotFound, "not-found", 404, 3},
    ErrcEntry{Errc::kAlreadyExists, "already-exists", 409, 4},
    ErrcEntry{Errc::kBusy, "busy", 409, 5},
    ErrcEntry{Errc::kPermissionDenied, "permission-denied", 403, 6},
    ErrcEntry{Errc::kResourceExhausted, "resource-exhausted", 507, 7},
    ErrcEntry{Errc::kUnavailable, "unavailable", 503, 8},
    ErrcEntry{Errc::kProtocol, "protocol", 400, 9},
    ErrcEntry{Errc::kVersionMismatch, "version-mismatch", 409, 10},
    ErrcEntry{Errc::kTimeout, "timeout", 504, 11},
    ErrcEntry{Errc::kIo, "io", 500, 12},
    ErrcEntry{Errc::kInternal, "internal", 500, 70},
};

constexpr const ErrcEntry& EntryOf(Errc code) { return kErrcTable[static_cast<std::size_t>(code)]; }
constexpr std::string_view NameOf(Errc code) { return EntryOf(code).name; }

consteval bool ErrcTableIsInOrder() {
  for (std::size_t i = 0; i < kErrcTable.size(); ++i)
    if (static_cast<std::size_t>(kErrcTable[i].code) != i) return false;
  return true;
}
static_assert(ErrcTableIsInOrder());

}  // namespace weir
