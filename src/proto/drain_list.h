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
inline constexpr std::size_t kDrainListBytesMax = 4096;
inline constexpr std::size_t kWhyBytesMax = 255;

struct DrainRequest {
  std::string vgpu = {};
  std::string why = {};  // text for users
  friend bool operator==(const DrainRequest&, const DrainRequest&) = default;
};
/// There is at most one request per device; requests that do not fit into the packet are omitted.
std::string DrainListText(const std::vector<DrainRequest>& asks);
/// Nothing if the text is not such a list.
std::optional<std::vector<DrainRequest>> DrainListFrom(std::string_view text);

/// The connections at one portal of a vGPU with a drain request.
struct DrainState {
  std::string vgpu = {};
  std::uint32_t here = 0;   // connections
  std::uint32_t asked = 0;  // of these connections; relays of older versions can't be asked
  friend bool operator==(const DrainState&, const DrainState&) = default;
};
std::string DrainStateText(const std::vector<DrainState>& all);
std::optional<std::vector<DrainState>> DrainStateFrom(std::string_view text);

}  // namespace weir::proto
