// SPDX-License-Identifier: Apache-2.0
// Which device a run goes to. One table of the ways to choose: command line, scenarios and docs follow from it. Pure.
// Page: docs/placement.md
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/placement/cluster_state.h"
#include "core/placement/interference.h"

namespace weir::core {

enum class PlacementReason : std::uint8_t {
  kIdle,      // nothing runs there
  kLeast,     // the least interference of those with room
  kTurn,      // the next one in turn with room
  kFullest,   // the fewest bytes free of those with room
  kEmptiest,  // the fewest runs of those with room
  kBusy,      // `serial`: no device is idle
  kTurns,     // those with room are busy with what it would only take turns with
  kSooner,    // waiting for the device that is done first takes less
  kNoRoom,    // no device has the memory free and runs fewer than it may
  kTooLarge,  // no device has that much memory
};
std::string_view NameOf(PlacementReason reason);

struct PlacementChoice {
  DeviceId device{};  // none: it waits, or with kTooLarge will never run
  PlacementReason reason = PlacementReason::kNoRoom;
  Interference predicted{};  // of a model, where the placement has one
};
/// "device 7: the least interference, 1.31 times its time alone, 0.42 s lost in all".
std::string Words(const PlacementChoice& choice);

class Placement {
 public:
  virtual ~Placement() = default;
  /// A device with room, or none. Takes it for chosen: round-robin's turn goes on.
  virtual PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) = 0;
  /// What interference is predicted with; none: it doesn't.
  [[nodiscard]] virtual InterferenceModel* model() { return nullptr; }
};

struct PlacementEntry {
  std::string_view name;
  std::string_view summary;
  std::span<const PolicyParam> params;
  std::unique_ptr<Placement> (*make)(const PolicyParams& checked);
};
std::span<const PlacementEntry> PlacementTable();
inline constexpr std::string_view kDefaultPlacement = "interference-aware";

/// kNotFound lists the names.
Result<const PlacementEntry*> FindPlacement(std::string_view name);
/// Also kInvalidArgument, as CheckParams of a policy.
Result<std::unique_ptr<Placement>> MakePlacement(std::string_view name, const PolicyParams& given);

/// Devices of one state as candidates for a run.
struct PlacementCandidate {
  DeviceId device{};      // the lowest of them
  std::size_t alike = 1;  // how many there are
  bool idle = false, room = false;
  bool turns = false;        // there is room, but nothing to be gained by running there now
  bool sooner = false;       // there is room, but it waits for the device that is done first
  Interference predicted{};  // 1 and 0 where it is idle
  std::string reason{};      // in words: what runs there and what it would cost, or why there is no room
};
/// What `weir explain` shows: the best first, as interference-aware ranks them; at most `count_max`.
std::vector<PlacementCandidate> Explain(const ClusterState& cluster, const InterferenceModel& model,
                                        const RunNeed& need, std::size_t count_max = 16);

}  // namespace weir::core
