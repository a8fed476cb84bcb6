// SPDX-License-Identifier: Apache-2.0
// Chooses the device of a run. The only list of placements: the command line, scenarios and docs are derived from it.
// Pure.
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
  kIdle,      // nothing runs on it
  kLeast,     // the least interference of devices with room
  kTurn,      // the next device with room, in turn
  kFullest,   // the fewest bytes free of devices with room
  kEmptiest,  // the fewest runs of devices with room
  kBusy,      // `serial`: no device is idle
  kTurns,     // on devices with room, the run would only take turns with present runs
  kSooner,    // the run is done sooner if it waits for the device that is done first
  kNoRoom,    // no device has both enough free memory and a free place for a run
  kTooLarge,  // no device has that much memory
  kNamed,     // the device that the run names
};
std::string_view NameOf(PlacementReason reason);

struct PlacementChoice {
  DeviceId device{};  // none: the run waits, or with kTooLarge can never run
  PlacementReason reason = PlacementReason::kNoRoom;
  Interference predicted{};  // if the placement has a model
};
/// "device 7: the least interference, 1.31 times its time alone, 0.42 s lost in all".
std::string Words(const PlacementChoice& choice);

class Placement {
 public:
  virtual ~Placement() = default;
  /// Chooses a device with room, or none. Assumes that the choice is used: round-robin advances its turn.
  virtual PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) = 0;
  /// The model that predicts interference; null: the placement has none.
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
/// Fails as FindPlacement, and with kInvalidArgument as CheckParams of a policy.
Result<std::unique_ptr<Placement>> MakePlacement(std::string_view name, const PolicyParams& given);

/// Devices of one state, as a candidate for a run.
struct PlacementCandidate {
  DeviceId device{};      // the lowest id of the group
  std::size_t alike = 1;  // size of the group
  bool idle = false, room = false;
  bool turns = false;        // there is room, but nothing is gained by starting now
  bool sooner = false;       // there is room, but waiting for the device that is done first is better
  Interference predicted{};  // 1 and 0 for an idle device
  std::string reason{};      // text: what runs there and what it would cost, or why there is no room
};
/// Output of `weir explain`: at most `count_max` candidates, ranked as interference-aware does, the best first.
std::vector<PlacementCandidate> Explain(const ClusterState& cluster, const InterferenceModel& model,
                                        const RunNeed& need, std::size_t count_max = 16);

}  // namespace weir::core
