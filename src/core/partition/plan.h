// SPDX-License-Identifier: Apache-2.0
// Decides where a compute task runs whose data may not fit locally: locally, split between this node and peers with
// room, wholly on a peer, locally in pieces, or later. Implements Partial migration's Algorithm 2, and our own choice
// with a cost model. Pure. Page: docs/partition.md
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/partition/need.h"

namespace weir::core {

enum class PartitionMode : std::uint8_t { kAuto, kStay, kAlways, kPaper };
/// "auto", "never", "always", "paper".
std::string_view NameOf(PartitionMode mode);
/// kInvalidArgument lists the names.
Result<PartitionMode> PartitionModeNamed(std::string_view name);

enum class PlanKind : std::uint8_t {
  kHere,     // locally as a whole
  kSplit,    // some groups locally in one or several pieces, the others on peers
  kMigrate,  // on a peer as a whole
  kPieces,   // locally, one piece after another
  kWait,     // until there is room locally or on a peer
  kRefuse,   // it can't run
};
std::string_view NameOf(PlanKind kind);

enum class PlanReason : std::uint8_t {
  kFits,          // it fits locally
  kFastest,       // of several possible ways
  kOnlyWay,       // no other way is possible
  kAsked,         // `always`: a split was requested
  kPartFits,      // `paper`: at least the minimum share fits locally
  kBelowMinimum,  // `paper`: less than the minimum share fits locally
  kNoRoom,        // it can't be cut small enough, and no peer that may be used has room
  kTooLarge,      // like kNoRoom, and it would not even fit on an empty device
};
std::string_view NameOf(PlanReason reason);

/// A device as a task finds it, and the cost of a part on it.
struct DeviceView {
  Bytes room{};                // free, or reserved for this task
  Bytes total{};               // room on the empty device
  double in_bytes_per_s = 0;   // host to device
  double out_bytes_per_s = 0;  // device to host
  Duration queue{};            // until the queued work is done
  Duration launch{};           // for each launch, whatever its size
  double group_s = 0;          // for each work-group
};

struct LinkView {
  double bytes_per_s = 0;
  Duration latency{};
  Duration stretch{};  // for each contiguous stretch that is sent
  Duration queue{};    // until the link is free
};

/// A peer that has offered room (choice.h).
struct PeerView {
  NodeId id{};
  DeviceView device{};
  LinkView link{};
  std::uint64_t threads = 0;  // running on the peer
};
inline constexpr std::size_t kPlanPeersMax = 8;

struct TaskView {
  std::array<std::uint64_t, kDimensionsMax> groups{1, 1, 1};  // along each dimension, at least 1
  const TaskNeed* need = nullptr;
  bool from_elsewhere = false;  // a part that another node has sent; it is not sent on
  // Rate of the link to the client, over which inputs still have to arrive and outputs return. The client of a task
  // that runs wholly on a peer sends to the peer directly. 0: inputs are local, and outputs have to be local in the
  // end.
  double client_bytes_per_s = 0;
  std::optional<Duration> room_in{};  // predicted time until all of it fits locally, if known
};

struct PlanParams {
  double min_share = 0.3;     // `paper`: minimum share of groups (30 % in Algorithm 2, 10 % in section 4.3)
  double always_share = 0.5;  // `always`: share of groups on peers
  std::uint32_t pieces_max = 64;
};

/// Predicted times of a plan.
struct PlanTimes {
  Duration here{};   // local part, without the transfers to and from the client
  Duration there{};  // remote parts, with both directions of the link
  Duration total{};  // from now until the client has its outputs; Duration::max(): impossible
};

struct Plan {
  PlanKind kind = PlanKind::kWait;
  PlanReason reason = PlanReason::kNoRoom;
  unsigned dimension = 0;
  // Ends of the parts in order: `here` local pieces, then one part for each of `nodes`. The last end is the number of
  // groups. Empty: the task doesn't run now.
  std::vector<std::uint64_t> ends{};
  std::uint32_t here = 0;
  std::vector<NodeId> nodes{};
  PlanTimes times{};
  [[nodiscard]] std::uint64_t kept() const { return here == 0 ? 0 : ends[here - 1]; }  // number of local groups
  [[nodiscard]] bool Leaves() const { return kind == PlanKind::kSplit || kind == PlanKind::kMigrate; }
};
/// "640 of 1375 groups along dimension 1 here, the others on node 2: fastest, in 8.3 s".
std::string Words(const Plan& plan);

/// `peers`: the nodes that have offered room, if any. They are used in Algorithm 1's order: the fewest threads first,
/// then the lower id, at most kPlanPeersMax. Total: any view gives a plan.
Plan MakePlan(PartitionMode mode, const TaskView& task, const DeviceView& here, std::span<const PeerView> peers,
              const PlanParams& params = {});
/// MakePlan with at most one peer.
Plan MakePlan(PartitionMode mode, const TaskView& task, const DeviceView& here, const std::optional<PeerView>& peer,
              const PlanParams& params = {});

/// Predicts the times of any plan in these views, to compare plans. `total` is Duration::max() if a part does not fit.
PlanTimes Reckon(const Plan& plan, const TaskView& task, const DeviceView& here, std::span<const PeerView> peers);
PlanTimes Reckon(const Plan& plan, const TaskView& task, const DeviceView& here, const std::optional<PeerView>& peer);

}  // namespace weir::core
