// SPDX-License-Identifier: Apache-2.0
// Messages between a daemon and its portals on RUN_DIR/portals.sock, one packet each. The daemon sends the complete
// list of drain requests whenever it changes ("leave", then lines of "VGPU WHY"). A portal sends, for each vGPU of the
// list that it has connections of, their number and how many of them have been asked ("here", then lines of "VGPU HERE
// ASKED"). Page: docs/migration.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proto {

inline constexpr const char* kPortalsSocket = "portals.sock";
inline constexpr std::size_t kLeaveBytesMax = 4096;
inline constexpr std::size_t kWhyBytesMax = 255;

struct LeaveAsk {
  std::string vgpu = {};
  std::string why = {};  // text for users
  friend bool operator==(const LeaveAsk&, const LeaveAsk&) = default;
};
/// There is at most one request per device; requests that do not fit into the packet are omitted.
std::string LeaveListText(const std::vector<LeaveAsk>& asks);
/// Nothing if the text is not such a list.
std::optional<std::vector<LeaveAsk>> LeaveListFrom(std::string_view text);

/// The connections at one portal of a vGPU with a drain request.
struct AskedHere {
  std::string vgpu = {};
  std::uint32_t here = 0;   // connections
  std::uint32_t asked = 0;  // of these; relays of older versions can't be asked
  friend bool operator==(const AskedHere&, const AskedHere&) = default;
};
std::string AskedHereText(const std::vector<AskedHere>& all);
std::optional<std::vector<AskedHere>> AskedHereFrom(std::string_view text);

}  // namespace weir::proto
