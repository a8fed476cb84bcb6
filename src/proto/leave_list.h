// SPDX-License-Identifier: Apache-2.0
// What a daemon and its portals say on RUN_DIR/portals.sock, a packet each. The daemon: which vGPUs are asked to leave
// this node, all of them, whenever that changes ("leave", then lines of "VGPU WHY"). A portal: of those that it carries
// connections of, how many, and how many of these have been asked ("here", then lines of "VGPU HERE ASKED"). Page:
// docs/migration.md
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
  std::string why = {};  // for people
  friend bool operator==(const LeaveAsk&, const LeaveAsk&) = default;
};
/// One is asked of each device; what would not fit a packet is left out.
std::string LeaveListText(const std::vector<LeaveAsk>& asks);
/// Nothing: it is none.
std::optional<std::vector<LeaveAsk>> LeaveListFrom(std::string_view text);

/// Of a vGPU that is asked to leave, at one portal.
struct AskedHere {
  std::string vgpu = {};
  std::uint32_t here = 0;   // connections
  std::uint32_t asked = 0;  // of these; others' relays are of before there was a way to ask
  friend bool operator==(const AskedHere&, const AskedHere&) = default;
};
std::string AskedHereText(const std::vector<AskedHere>& all);
std::optional<std::vector<AskedHere>> AskedHereFrom(std::string_view text);

}  // namespace weir::proto
