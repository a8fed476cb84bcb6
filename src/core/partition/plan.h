// SPDX-License-Identifier: Apache-2.0
// Where a compute task runs whose data may not fit here: here, split between here and a node that has room, all there,
// here in pieces, later. Partial migration's Algorithm 2, and ours with a model of what each way costs. Pure. Page:
// docs/partition.md
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
  kHere,     // whole
  kSplit,    // some groups here, in one piece or several, the others there
  kMigrate,  // whole, there
  kPieces,   // all here, one piece after another
  kWait,     // for room here, or for a node that has some
  kRefuse,   // it can't run
};
std::string_view NameOf(PlanKind kind);

enum class PlanReason : std::uint8_t {
  kFits,          // it fits here
  kFastest,       // of several ways
  kOnlyWay,       // of all ways the only one that is possible
  kAsked,         // `always`: split because that was asked for
  kPartFits,      // `paper`: at least the minimum share fits here
  kBelowMinimum,  // `paper`: less than the minimum share fits here
  kNoRoom,        // it can't be cut small enough, and no node that may be used has room
  kTooLarge,      // likewise, and it would not fit with all of the device free
};
std::string_view NameOf(PlanReason reason);

/// A device as a task meets it, and what a part costs there.
struct DeviceView {
  Bytes room{};                // free, or held for this task
  Bytes total{};               // room if nothing else were there
  double in_bytes_per_s = 0;   // host to device
  double out_bytes_per_s = 0;  // device to host
  Duration queue{};            // until it has done what is queued
  Duration launch{};           // of each launch, whatever its size
  double group_s = 0;          // of each work-group
};

struct LinkView {
  double bytes_per_s = 0;
  Duration latency{};
  Duration stretch{};  // for each contiguous stretch that travels
  Duration queue{};    // until it is free
};

/// A node that has offered room (choice.h).
struct PeerView {
  NodeId id{};
  DeviceView device{};
  LinkView link{};
  std::uint64_t threads = 0;  // that run there
};
inline constexpr std::size_t kPlanPeersMax = 8;

struct TaskView {
  std::array<std::uint64_t, kDimensionsMax> groups{1, 1, 1};  // along each dimension, at least 1
  const TaskNeed* need = nullptr;
  bool from_elsewhere = false;  // a part that another node has sent: not sent on
  // Inputs that have not come yet take their way to here at this rate, and outputs theirs back; the client of a task
  // that runs there as a whole sends there directly. 0: inputs are here, outputs are to be brought here.
  double client_bytes_per_s = 0;
  std::optional<Duration> room_in{};  // until there is room for all of it here, where that can be foreseen
};

struct PlanParams {
  double min_share = 0.3;     // `paper`: n %, of the groups (30 in Algorithm 2, 10 in section 4.3)
  double always_share = 0.5;  // `always`: of the groups, there
  std::uint32_t pieces_max = 64;
};

/// What a way is reckoned to take.
struct PlanTimes {
  Duration here{};   // the part here, without what comes before and after
  Duration there{};  // the parts there, with both ways
  Duration total{};  // from now until the client has its outputs; Duration::max(): it can't be
};

struct Plan {
  PlanKind kind = PlanKind::kWait;
  PlanReason reason = PlanReason::kNoRoom;
  unsigned dimension = 0;
  // Ends of the parts in order: `here` pieces, then one there for each of `nodes`. The last is the number of groups.
  // Empty: it doesn't run now.
  std::vector<std::uint64_t> ends{};
  std::uint32_t here = 0;
  std::vector<NodeId> nodes{};
  PlanTimes times{};
  [[nodiscard]] std::uint64_t kept() const { return here == 0 ? 0 : ends[here - 1]; }  // groups here
  [[nodiscard]] bool Leaves() const { return kind == PlanKind::kSplit || kind == PlanKind::kMigrate; }
};
/// "640 of 1375 groups along dimension 1 here, the others on node 2: fastest, in 8.3 s".
std::string Words(const Plan& plan);

/// `peers`: nodes that have offered room; none: nobody has, or nobody was asked. They are taken as Algorithm 1 chooses:
/// the fewest threads first, then the lower id; beyond kPlanPeersMax none. Total: any view gives a plan.
Plan MakePlan(PartitionMode mode, const TaskView& task, const DeviceView& here, std::span<const PeerView> peers,
              const PlanParams& params = {});
/// Of one node at most.
Plan MakePlan(PartitionMode mode, const TaskView& task, const DeviceView& here, const std::optional<PeerView>& peer,
              const PlanParams& params = {});

/// What a plan takes in these views; its pieces must fit. For comparisons of plans that others made.
PlanTimes Reckon(const Plan& plan, const TaskView& task, const DeviceView& here, std::span<const PeerView> peers);
PlanTimes Reckon(const Plan& plan, const TaskView& task, const DeviceView& here, const std::optional<PeerView>& peer);

}  // namespace weir::core
