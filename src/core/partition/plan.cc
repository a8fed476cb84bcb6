// SPDX-License-Identifier: Apache-2.0
#include "core/partition/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/partition/cut_model.h"
#include "core/partition/shared_cut.h"

namespace weir::core {
namespace {

using partition::CutModel;
using partition::kImpossible;

constexpr std::array<std::string_view, 4> kPartitionModes{"auto", "never", "always", "paper"};
constexpr std::array<std::string_view, 6> kPlanKinds{"here", "split", "migrate", "pieces", "wait", "refuse"};
constexpr std::array<std::string_view, 8> kPlanReasons{
    "it fits here",
    "the fastest way",
    "the only way",
    "asked for",
    "the part that fits here is large enough",
    "the part that fits here is too small",
    "no node with room, and no way to cut it small enough",
    "larger than the device, no node with room, and no way to cut it small enough"};

Duration AsDuration(double spent_s) {
  constexpr double kForeverSeconds = 1e9;
  return spent_s < kForeverSeconds ? FromSeconds(spent_s) : Duration::max();
}

/// The cuttable dimension whose parts have the fewest stretches. With one stretch for each argument, the data of a part
/// is contiguous. None if no dimension can be cut.
std::optional<unsigned> EasiestDimension(const TaskView& task) {
  std::optional<unsigned> best;
  std::uint64_t fewest = 0;
  for (unsigned dimension = 0; dimension < kDimensionsMax; ++dimension) {
    const std::uint64_t count = task.groups[dimension];
    if (count < 2 || !task.need->Cuttable(dimension)) continue;
    const std::uint64_t stretches = task.need->Of({dimension, 0, count - 1}).stretches;
    if (best && stretches >= fewest) continue;
    best = dimension;
    fewest = stretches;
  }
  return best;
}

std::span<const PeerView> OneOrNone(const std::optional<PeerView>& peer) {
  return peer ? std::span<const PeerView>(&*peer, 1) : std::span<const PeerView>();
}

/// Algorithm 1's order: the fewest threads first, ties by id.
std::vector<PeerView> InOrder(std::span<const PeerView> peers) {
  std::vector<PeerView> ordered(peers.begin(), peers.end());
  std::ranges::stable_sort(ordered, [](const PeerView& a, const PeerView& b) {
    return a.threads != b.threads ? a.threads < b.threads : a.id < b.id;
  });
  if (ordered.size() > kPlanPeersMax) ordered.resize(kPlanPeersMax);
  return ordered;
}

/// Chooses among the possible plans of one task.
class Planner {
 public:
  /// `may_leave`: whether peers may run any part of it.
  Planner(const TaskView& task, const DeviceView& here, std::span<const PeerView> peers, bool may_leave,
          const PlanParams& params)
      : task_(task),
        here_(here),
        peers_(InOrder(task.from_elsewhere || !may_leave ? std::span<const PeerView>() : peers)),
        params_(params),
        easiest_(EasiestDimension(task)),
        main_(easiest_.value_or(0)),
        whole_(task.need->Of({main_, 0, count()})) {}

  [[nodiscard]] Plan Auto() const {
    if (whole_.device <= here_.room) return WholeLocally();
    return Fastest();
  }

  /// For `always`: a split even if the task fits locally. All peers get equal parts of the remote share.
  [[nodiscard]] Plan Always() const {
    std::optional<Plan> best;
    ForEachDimension([&](const CutModel& model, unsigned dimension) {
      const double wanted = static_cast<double>(model.count()) * (1 - params_.always_share);
      const auto keep = static_cast<std::uint64_t>(std::llround(std::max(wanted, 0.0)));
      const auto offer = [&](Plan plan) {
        if (!best || plan.times.total < best->times.total) best = std::move(plan);
      };
      if (peers_.size() > 1 && model.count() > 1) {
        const std::vector<std::uint64_t> ends = partition::EqualEnds(model, keep, peers_.size());
        if (partition::FitsThere(model, ends, peers_) && ends.front() <= model.reach())
          return offer(SharedAt(model, dimension, ends, peers_, PlanReason::kAsked));
      }
      for (const PeerView& peer : peers_) {
        const auto [low, high] = SplitBounds(model, peer);
        if (low > high) continue;
        return offer(SplitAt(model, dimension, std::clamp(keep, low, high), peer, PlanReason::kAsked));
      }
    });
    return best ? *best : Auto();
  }

  /// Algorithm 2. The local part of its plan may not fit: the paper computes the data per thread as the whole need
  /// divided by the number of threads, although all threads may read some data in common.
  [[nodiscard]] Plan Paper() const {
    if (whole_.device <= here_.room) return WholeLocally();
    if (peers_.empty()) return Nothing();
    const PeerView& peer = peers_.front();
    const std::uint64_t kept = PapersCut();
    if (!easiest_ || kept == 0 ||
        static_cast<double>(kept) < static_cast<double>(count()) * std::clamp(params_.min_share, 0.0, 1.0))
      return whole_.device <= peer.device.room ? Migrated(peer, PlanReason::kBelowMinimum) : Nothing();
    if (task_.need->Of({main_, kept, count()}).device > peer.device.room) return Nothing();
    return Timed({.kind = PlanKind::kSplit,
                  .reason = PlanReason::kPartFits,
                  .dimension = main_,
                  .ends = {kept, count()},
                  .here = 1,
                  .nodes = {peer.id}});
  }

 private:
  [[nodiscard]] std::uint64_t count() const { return task_.groups[main_]; }

  /// ThreadToSource = available memory / data per thread, in whole groups along the dimension; below `count()` if the
  /// task does not fit.
  [[nodiscard]] std::uint64_t PapersCut() const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(here_.room.count) * count() /
                                      std::max<std::uint64_t>(whole_.device.count, 1));
  }

  [[nodiscard]] Plan Timed(Plan plan) const {
    plan.times = Reckon(plan, task_, here_, peers_);
    return plan;
  }
  [[nodiscard]] Plan WholeLocally() const {
    return Timed(
        {.kind = PlanKind::kHere, .reason = PlanReason::kFits, .dimension = main_, .ends = {count()}, .here = 1});
  }
  [[nodiscard]] Plan Migrated(const PeerView& peer, PlanReason reason) const {
    return Timed(
        {.kind = PlanKind::kMigrate, .reason = reason, .dimension = main_, .ends = {count()}, .nodes = {peer.id}});
  }
  [[nodiscard]] Plan SplitAt(const CutModel& model, unsigned dimension, std::uint64_t kept, const PeerView& peer,
                             PlanReason reason) const {
    return SharedAt(model, dimension, {kept, model.count()}, {&peer, 1}, reason);
  }
  /// [0, ends[0]) runs locally, the rest in order on `peers`; a peer with an empty part is left out.
  [[nodiscard]] Plan SharedAt(const CutModel& model, unsigned dimension, const std::vector<std::uint64_t>& ends,
                              std::span<const PeerView> peers, PlanReason reason) const {
    Plan plan{.kind = PlanKind::kSplit, .reason = reason, .dimension = dimension, .ends = model.EndsOf(ends.front())};
    plan.here = static_cast<std::uint32_t>(plan.ends.size());
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (ends[i + 1] == ends[i]) continue;
      plan.ends.push_back(ends[i + 1]);
      plan.nodes.push_back(peers[i].id);
    }
    return Timed(std::move(plan));
  }
  /// For a task that can't run now: refuses it if it never can, otherwise lets it wait.
  [[nodiscard]] Plan Nothing() const {
    DeviceView empty = here_;
    empty.room = here_.total;
    bool possible = whole_.device <= empty.room;
    for (unsigned dimension = 0; dimension < kDimensionsMax && !possible; ++dimension) {
      if (!task_.need->Cuttable(dimension)) continue;
      CutModel model(task_, dimension);
      model.CutIntoPieces(empty, params_.pieces_max);
      possible = model.reach() == model.count();
    }
    if (!possible) return Timed({.kind = PlanKind::kRefuse, .reason = PlanReason::kTooLarge, .dimension = main_});
    return Timed({.kind = PlanKind::kWait, .reason = PlanReason::kNoRoom, .dimension = main_});
  }

  /// Calls `use(model, dimension)` for every cuttable dimension, with the local part already cut into pieces.
  template <typename Use>
  void ForEachDimension(Use use) const {
    for (unsigned dimension = 0; dimension < kDimensionsMax; ++dimension) {
      if (!task_.need->Cuttable(dimension)) continue;
      CutModel model(task_, dimension);
      model.CutIntoPieces(here_, params_.pieces_max);
      use(model, dimension);
    }
  }
  struct Bounds {
    std::uint64_t low = 1, high = 0;
  };
  /// Bounds of the number of local groups in a split; low is above high if no split is possible.
  [[nodiscard]] Bounds SplitBounds(const CutModel& model, const PeerView& peer) const {
    if (model.count() < 2 || model.reach() == 0) return {};
    return {std::max<std::uint64_t>(model.MinLocalGroups(peer.device.room), 1),
            std::min(model.reach(), model.count() - 1)};
  }

  /// The fastest of all possible ways for a task that does not fit locally as a whole.
  [[nodiscard]] Plan Fastest() const {
    Plan best = Nothing();
    best.times.total = Duration::max();
    int ways = 0;
    const auto offer = [&](Plan plan) {
      ways += plan.times.total < Duration::max() ? 1 : 0;
      if (plan.times.total < best.times.total) best = std::move(plan);
    };
    ForEachDimension([&](const CutModel& model, unsigned dimension) {
      if (model.reach() == model.count()) offer(AllInPieces(model, dimension));
      for (const PeerView& peer : peers_) {
        const auto [low, high] = SplitBounds(model, peer);
        if (low > high) continue;
        std::uint64_t kept = model.BestCut(peer, low, high);
        const std::uint64_t papers = dimension == main_ ? std::clamp(PapersCut(), low, high) : kept;
        if (model.Later(peer, papers) < model.Later(peer, kept)) kept = papers;
        offer(SplitAt(model, dimension, kept, peer, PlanReason::kFastest));
      }
      if (peers_.size() < 2) return;
      const std::vector<std::uint64_t> ends = partition::SharedEnds(model, peers_);
      if (!ends.empty()) offer(SharedAt(model, dimension, ends, peers_, PlanReason::kFastest));
    });
    for (const PeerView& peer : peers_)
      if (whole_.device <= peer.device.room) offer(Migrated(peer, PlanReason::kFastest));
    if (task_.room_in) offer(Timed({.kind = PlanKind::kWait, .reason = PlanReason::kFastest, .dimension = main_}));
    if (ways == 1) best.reason = PlanReason::kOnlyWay;
    return best;
  }
  [[nodiscard]] Plan AllInPieces(const CutModel& model, unsigned dimension) const {
    Plan plan{.kind = PlanKind::kPieces,
              .reason = PlanReason::kFastest,
              .dimension = dimension,
              .ends = model.EndsOf(model.count())};
    plan.here = static_cast<std::uint32_t>(plan.ends.size());
    return Timed(std::move(plan));
  }

  const TaskView& task_;
  const DeviceView& here_;
  const std::vector<PeerView> peers_;
  const PlanParams& params_;
  const std::optional<unsigned> easiest_;
  const unsigned main_;  // the easiest, or 0
  const PartNeed whole_;
};

/// Time of the local parts, one after another; infinite if one doesn't fit.
double LocalSeconds(const CutModel& model, const Plan& plan, const DeviceView& here) {
  double spent_s = SecondsOf(here.queue);
  std::uint64_t first = 0;
  for (std::uint32_t piece = 0; piece < plan.here; ++piece) {
    const std::uint64_t last = plan.ends[piece];
    const PartNeed need = model.NeedOf(first, last);
    if (need.device > here.room) return kImpossible;
    spent_s += partition::SecondsOn(here, need, model.GroupsIn(first, last), first == 0 ? Bytes{} : need.alike);
    first = last;
  }
  return spent_s;
}

}  // namespace

std::string_view NameOf(PartitionMode mode) { return kPartitionModes[static_cast<std::size_t>(mode)]; }
std::string_view NameOf(PlanKind kind) { return kPlanKinds[static_cast<std::size_t>(kind)]; }
std::string_view NameOf(PlanReason reason) { return kPlanReasons[static_cast<std::size_t>(reason)]; }

Result<PartitionMode> PartitionModeNamed(std::string_view name) {
  for (std::size_t i = 0; i < kPartitionModes.size(); ++i)
    if (kPartitionModes[i] == name) return static_cast<PartitionMode>(i);
  return Fail(Errc::kInvalidArgument,
              fmt::format("unknown way of partitioning '{}'; known: {}", name, fmt::join(kPartitionModes, ", ")));
}

namespace {

std::string NamesOf(std::span<const NodeId> nodes) {
  std::string names;
  for (const NodeId node : nodes) names += (names.empty() ? "" : ", ") + std::to_string(node.value);
  return names;
}

}  // namespace

std::string Words(const Plan& plan) {
  const std::string why = fmt::format("{}{}", NameOf(plan.reason),
                                      plan.times.total > Duration{0} && plan.times.total < Duration::max()
                                          ? fmt::format(", in {:.3g} s", SecondsOf(plan.times.total))
                                          : "");
  const std::uint64_t all = plan.ends.empty() ? 0 : plan.ends.back();
  switch (plan.kind) {
    case PlanKind::kHere: return fmt::format("here: {}", why);
    case PlanKind::kMigrate: return fmt::format("all on node {}: {}", plan.nodes.front().value, why);
    case PlanKind::kPieces:
      return fmt::format("here in {} pieces along dimension {}: {}", plan.here, plan.dimension, why);
    case PlanKind::kSplit:
      return fmt::format("{} of {} groups along dimension {} here{}, the others on node{} {}: {}", plan.kept(), all,
                         plan.dimension, plan.here > 1 ? fmt::format(" in {} pieces", plan.here) : "",
                         plan.nodes.size() > 1 ? "s" : "", NamesOf(plan.nodes), why);
    case PlanKind::kWait: return fmt::format("waits: {}", why);
    case PlanKind::kRefuse: return fmt::format("refused: {}", why);
  }
  return "unknown";
}

PlanTimes Reckon(const Plan& plan, const TaskView& task, const DeviceView& here, std::span<const PeerView> peers) {
  const CutModel model(task, plan.dimension);
  const PartNeed whole = model.NeedOf(0, model.count());
  const bool coming = task.client_bytes_per_s > 0;
  const double arrive = coming ? partition::SecondsFor(whole.sent.count, task.client_bytes_per_s) : 0;
  const double deliver = coming ? partition::SecondsFor(whole.returned.count, task.client_bytes_per_s) : 0;
  if (plan.kind == PlanKind::kRefuse || (plan.kind == PlanKind::kWait && (!task.room_in || whole.device > here.total)))
    return {.total = Duration::max()};
  if (plan.kind == PlanKind::kWait) {
    const double alone = partition::SecondsOn(here, whole, model.GroupsIn(0, model.count()), Bytes{});
    return {.here = AsDuration(alone),
            .total = AsDuration(std::max(arrive, SecondsOf(*task.room_in)) + alone + deliver)};
  }
  const double here_s = plan.here > 0 ? LocalSeconds(model, plan, here) : 0;
  double there_s = 0;
  std::uint64_t first = plan.kept();
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const std::uint64_t last = plan.ends[plan.here + i];
    const auto peer = std::ranges::find(peers, plan.nodes[i], &PeerView::id);
    const bool fits = peer != peers.end() && model.Fits(first, last, peer->device.room);
    there_s = std::max(there_s, fits ? model.There(*peer, first, last) : kImpossible);
    first = last;
  }
  // The client of a task that runs wholly on a peer sends to the peer directly.
  const double ways = plan.kind == PlanKind::kMigrate ? 0 : arrive + deliver;
  return {
      .here = AsDuration(here_s), .there = AsDuration(there_s), .total = AsDuration(ways + std::max(here_s, there_s))};
}

PlanTimes Reckon(const Plan& plan, const TaskView& task, const DeviceView& here, const std::optional<PeerView>& peer) {
  return Reckon(plan, task, here, OneOrNone(peer));
}

Plan MakePlan(PartitionMode mode, const TaskView& task, const DeviceView& here, std::span<const PeerView> peers,
              const PlanParams& params) {
  const Planner planner(task, here, peers, /*may_leave=*/mode != PartitionMode::kStay, params);
  if (mode == PartitionMode::kPaper) return planner.Paper();
  return mode == PartitionMode::kAlways ? planner.Always() : planner.Auto();
}

Plan MakePlan(PartitionMode mode, const TaskView& task, const DeviceView& here, const std::optional<PeerView>& peer,
              const PlanParams& params) {
  return MakePlan(mode, task, here, OneOrNone(peer), params);
}

}  // namespace weir::core
