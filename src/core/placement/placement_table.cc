// SPDX-License-Identifier: Apache-2.0
#include "core/placement/placement_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace weir::core {
namespace {

constexpr std::array<std::string_view, 11> kPlacementReasons{
    "idle",
    "the least interference of those with room",
    "the next one in turn with room",
    "the fullest of those with room",
    "the emptiest of those with room",
    "no device is idle",
    "beside the runs there it would only take turns",
    "all is done sooner if it waits for the device that is done first",
    "no device has the memory free and runs fewer than it may",
    "no device has that much memory",
    "the one that the run names",
};

PlacementChoice NoDevice(const ClusterState& cluster, const RunNeed& need, PlacementReason reason) {
  return {.reason = cluster.EverHolds(need) ? reason : PlacementReason::kTooLarge};
}

/// The group with the lowest rank; ties go to the group with the lowest device id. `rank` returns an optional; none
/// excludes the state. Examines each state with devices once.
template <typename Rank>
const ClusterState::Group* BestGroup(const ClusterState& cluster, Rank rank) {
  const ClusterState::Group* best = nullptr;
  decltype(rank(DeviceState{}, DeviceCapacity{})) least;
  for (const ClusterState::Group& group : cluster.groups()) {
    if (!group.lowest) continue;
    const auto one = rank(group.state, cluster.CapacityOf(group.state));
    if (!one || (best != nullptr && (*least < *one || (*one == *least && best->lowest < group.lowest)))) continue;
    best = &group;
    least = one;
  }
  return best;
}

/// Lower bound of the time until a device is done: the longest time alone of its runs. It avoids a prediction for most
/// devices.
double LongestAlone(std::span<const Neighbours> there) {
  std::uint64_t longest_ms = 0;
  for (const Neighbours& some : there) longest_ms = std::max(longest_ms, some.need->alone_ms);
  return static_cast<double>(longest_ms) * 1e-3;
}

/// The time until the first device is done, among `first_s` so far and this group. Devices that could never hold the
/// run do not count.
double FirstDone(double first_s, const ClusterState::Group& group, const RunNeed& need, const DeviceCapacity& capacity,
                 const Interference& predicted) {
  return group.lowest && need.memory <= capacity.memory ? std::min(first_s, predicted.before_s) : first_s;
}

/// Prefers idle devices. Of the others, except those where the run would only take turns, it takes those that finish
/// the run and their present runs first; of nearly equal ones, the one with the least time lost. Ties go to the least
/// work.
class InterferenceAware final : public Placement {
 public:
  explicit InterferenceAware(const PolicyParams& checked) : model_(checked) {}
  PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) override {
    const auto* idle = BestGroup(cluster, [&](const DeviceState& state, const DeviceCapacity& capacity) {
      return state.runs == 0 && state.Holds(need, capacity) ? std::optional(0) : std::nullopt;
    });
    if (idle != nullptr)
      return {.device = idle->lowest,
              .reason = PlacementReason::kIdle,
              .predicted = model_.Predict(need, {}, cluster.CapacityOf(idle->state))};
    ClusterState::NeighboursRoom room;
    InterferenceModel::Meeting meeting;
    bool held = false;
    double done_s = std::numeric_limits<double>::infinity(), soonest_s = done_s;
    candidates_.clear();
    ++choice_;
    for (const ClusterState::Group& group : cluster.groups()) {
      const DeviceState& state = group.state;
      const DeviceCapacity& capacity = cluster.CapacityOf(state);
      if (!group.lowest || need.memory > capacity.memory) continue;
      const std::span<const Neighbours> there = cluster.NeighboursOf(state, room);
      const double longest_s = LongestAlone(there);
      soonest_s = std::min(soonest_s, longest_s);
      if (!state.Holds(need, capacity) || !model_.AsGood(longest_s, done_s)) continue;
      Looked& looked = looked_[PlaceOf(state)];
      const bool again = looked.choice == choice_ && looked.kind == state.kind && looked.by_kind == state.by_kind;
      if (again && !model_.AsGood(looked.done_s, done_s)) continue;
      model_.Meet(need, there, capacity, meeting);
      const Drained all = meeting.All();
      looked = {.by_kind = state.by_kind, .kind = state.kind, .choice = choice_, .done_s = all.done_s};
      if (!model_.AsGood(all.done_s, done_s)) continue;
      const Interference predicted = meeting.Predicted(all);
      if (model_.TakesTurns(predicted, need, state.runs)) {
        held = true;
        continue;
      }
      done_s = std::min(done_s, predicted.done_s);
      candidates_.push_back({&group, predicted});
    }
    const Candidate* best = nullptr;
    for (const Candidate& one : candidates_)
      if (model_.AsGood(one.predicted.done_s, done_s) && (best == nullptr || one.Rank() < best->Rank())) best = &one;
    if (best == nullptr) return NoDevice(cluster, need, held ? PlacementReason::kTurns : PlacementReason::kNoRoom);
    const PlacementChoice chosen{
        .device = best->group->lowest, .reason = PlacementReason::kLeast, .predicted = best->predicted};
    // Whether another device is done so soon that the run had better wait for it.
    if (!model_.WaitsFor(soonest_s, best->predicted, need, best->group->state.runs)) return chosen;
    for (const ClusterState::Group& group : cluster.groups()) {
      const DeviceCapacity& capacity = cluster.CapacityOf(group.state);
      if (!group.lowest || need.memory > capacity.memory) continue;
      const std::span<const Neighbours> there = cluster.NeighboursOf(group.state, room);
      if (!model_.WaitsFor(LongestAlone(there), best->predicted, need, best->group->state.runs)) continue;
      model_.Meet(need, there, capacity, meeting);
      if (model_.WaitsFor(meeting.Before().done_s, best->predicted, need, best->group->state.runs))
        return {.reason = PlacementReason::kSooner, .predicted = best->predicted};
    }
    return chosen;
  }
  InterferenceModel* model() override { return &model_; }

 private:
  struct Candidate {
    const ClusterState::Group* group;
    Interference predicted;
    [[nodiscard]] std::tuple<double, double, std::uint64_t, DeviceId> Rank() const {
      return {predicted.lost_s, predicted.done_s, group->state.run_ms, group->lowest};
    }
  };
  /// Cached results by state without memory use: many devices differ only in their memory.
  struct Looked {
    std::array<KindCount, kKindsMax> by_kind{};
    std::uint32_t kind = 0;
    std::uint64_t choice = 0;
    double done_s = 0;
  };
  static constexpr std::size_t kLookedMax = 2'048;
  static std::size_t PlaceOf(const DeviceState& state) {
    std::uint64_t hash = state.kind;
    for (const KindCount& count : state.by_kind) {
      if (count.runs == 0) break;
      hash = (hash ^ (std::uint64_t{count.kind} << 8 | count.runs)) * 0x9E3779B97F4A7C15ULL;
    }
    return (hash >> 40) % kLookedMax;
  }

  InterferenceModel model_;
  std::vector<Candidate> candidates_;  // of one choice; a member to reuse its allocation
  std::vector<Looked> looked_{kLookedMax};
  std::uint64_t choice_ = 0;  // number of the choice; cached results of other choices are invalid
};

/// The behaviour of drivers that give a device to one program at a time.
class Serial final : public Placement {
 public:
  PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) override {
    const auto* best =
        BestGroup(cluster, [&](const DeviceState& state, const DeviceCapacity& capacity) -> std::optional<int> {
          return state.runs == 0 && state.Holds(need, capacity) ? std::optional(0) : std::nullopt;
        });
    if (best == nullptr) return NoDevice(cluster, need, PlacementReason::kBusy);
    return {.device = best->lowest, .reason = PlacementReason::kIdle};
  }
};

/// The next device with room after the last one that was chosen.
class InTurn final : public Placement {
 public:
  PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) override {
    const DeviceId next = cluster.NextAfter(
        last_, [&](const DeviceState& state) { return state.Holds(need, cluster.CapacityOf(state)); });
    if (!next) return NoDevice(cluster, need, PlacementReason::kNoRoom);
    last_ = next;
    return {.device = next, .reason = PlacementReason::kTurn};
  }

 private:
  DeviceId last_{};
};

/// The device with the fewest bytes free, then the one with the most runs.
class BinPack final : public Placement {
 public:
  PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) override {
    using Rank = std::tuple<std::uint64_t, std::int64_t>;
    const auto* best =
        BestGroup(cluster, [&](const DeviceState& state, const DeviceCapacity& capacity) -> std::optional<Rank> {
          if (!state.Holds(need, capacity)) return std::nullopt;
          return Rank(capacity.memory.count - state.used.count, -std::int64_t{state.runs});
        });
    if (best == nullptr) return NoDevice(cluster, need, PlacementReason::kNoRoom);
    return {.device = best->lowest, .reason = PlacementReason::kFullest};
  }
};

/// The device with the fewest runs, then the one with the most bytes free.
class Spread final : public Placement {
 public:
  PlacementChoice Choose(const ClusterState& cluster, const RunNeed& need) override {
    using Rank = std::tuple<std::uint32_t, std::uint64_t>;
    const auto* best =
        BestGroup(cluster, [&](const DeviceState& state, const DeviceCapacity& capacity) -> std::optional<Rank> {
          if (!state.Holds(need, capacity)) return std::nullopt;
          return Rank(state.runs, ~(capacity.memory.count - state.used.count));
        });
    if (best == nullptr) return NoDevice(cluster, need, PlacementReason::kNoRoom);
    return {.device = best->lowest, .reason = PlacementReason::kEmptiest};
  }
};

template <typename P>
std::unique_ptr<Placement> MakePlain(const PolicyParams&) {
  return std::make_unique<P>();
}

constexpr std::array<PlacementEntry, 5> kPlacements{{
    {"interference-aware", "an idle device, else the one that finishes first, by known interference (gCloud)",
     kInterferenceParams,
     [](const PolicyParams& checked) -> std::unique_ptr<Placement> {
       return std::make_unique<InterferenceAware>(checked);
     }},
    {"serial", "one run at a time on each device", {}, &MakePlain<Serial>},
    {"round-robin", "one device after another", {}, &MakePlain<InTurn>},
    {"binpack", "the device with the least free memory, so that others stay idle", {}, &MakePlain<BinPack>},
    {"spread", "the device with the fewest runs", {}, &MakePlain<Spread>},
}};

std::string RunsInWords(std::uint32_t runs) { return runs == 1 ? "1 run" : fmt::format("{} runs", runs); }

/// Source of a slowdown as text: ", as measured", ", mostly by threads", both, or empty.
std::string SourceOf(const Interference& predicted, const RunNeed& need, const DeviceState& state,
                     std::span<const Neighbours> beside, const DeviceCapacity& capacity,
                     const InterferenceModel& model) {
  if (predicted.known == state.runs) return ", as measured";
  std::string words;
  if (predicted.known > 0) words = fmt::format(", as measured beside {}", RunsInWords(predicted.known));
  const InterferenceModel::Weights parts = model.PartsOf(need, beside, capacity);
  const auto most = static_cast<std::size_t>(std::ranges::max_element(parts) - parts.begin());
  if (parts[most] <= 0) return words;
  const std::string_view by = most < kLoadKinds ? NameOf(static_cast<LoadKind>(most)) : "company";
  return words + (words.empty() ? fmt::format(", mostly by {}", by) : fmt::format(", else mostly by {}", by));
}

std::string WordsOf(const PlacementCandidate& candidate, const RunNeed& need, const DeviceState& state,
                    std::span<const Neighbours> beside, const DeviceCapacity& capacity,
                    const InterferenceModel& model) {
  if (!candidate.room)
    return state.runs >= capacity.runs_max
               ? fmt::format("no room: {} runs there, the maximum", state.runs)
               : fmt::format("no room: {} of {} MiB are free, {} are needed",
                             (capacity.memory.count - std::min(capacity.memory, state.used).count) >> 20,
                             capacity.memory.count >> 20, (need.memory.count + (1 << 20) - 1) >> 20);
  if (candidate.idle) return "idle: it runs as fast as alone";
  const std::string gain = candidate.turns    ? "they would only take turns"
                           : candidate.sooner ? "sooner done if it waits"
                                              : fmt::format("{:.3g} s lost in all", candidate.predicted.lost_s);
  return fmt::format("{} there: {:.3g} times its time alone{}, {}", RunsInWords(state.runs),
                     candidate.predicted.slowdown, SourceOf(candidate.predicted, need, state, beside, capacity, model),
                     gain);
}

}  // namespace

std::string_view NameOf(PlacementReason reason) { return kPlacementReasons[static_cast<std::size_t>(reason)]; }

std::string Words(const PlacementChoice& choice) {
  if (!choice.device)
    return fmt::format("{}: {}", choice.reason == PlacementReason::kTooLarge ? "refused" : "waits",
                       NameOf(choice.reason));
  if (choice.reason != PlacementReason::kLeast)
    return fmt::format("device {}: {}", choice.device.value, NameOf(choice.reason));
  return fmt::format("device {}: {}, {:.3g} times its time alone, {:.3g} s lost in all", choice.device.value,
                     NameOf(choice.reason), choice.predicted.slowdown, choice.predicted.lost_s);
}

std::span<const PlacementEntry> PlacementTable() { return kPlacements; }

Result<const PlacementEntry*> FindPlacement(std::string_view name) {
  std::string known;
  for (const PlacementEntry& entry : kPlacements) {
    if (entry.name == name) return &entry;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Fail(Errc::kNotFound, fmt::format("unknown placement '{}'; known: {}", name, known));
}

Result<std::unique_ptr<Placement>> MakePlacement(std::string_view name, const PolicyParams& given) {
  WEIR_TRY(const PlacementEntry* entry, FindPlacement(name));
  WEIR_TRY(const PolicyParams params, CheckParams({entry->name, "", entry->params, nullptr}, given));
  return entry->make(params);
}

std::vector<PlacementCandidate> Explain(const ClusterState& cluster, const InterferenceModel& model,
                                        const RunNeed& need, std::size_t count_max) {
  struct Ranked {
    PlacementCandidate candidate;
    const ClusterState::Group* group;
  };
  std::vector<Ranked> all;
  ClusterState::NeighboursRoom room;
  double first_s = std::numeric_limits<double>::infinity();
  for (const ClusterState::Group& group : cluster.groups()) {
    if (!group.lowest) continue;
    const DeviceCapacity& capacity = cluster.CapacityOf(group.state);
    all.push_back({{.device = group.lowest,
                    .alike = cluster.MembersOf(group).size(),
                    .idle = group.state.runs == 0,
                    .room = group.state.Holds(need, capacity),
                    .predicted = model.Predict(need, cluster.NeighboursOf(group.state, room), capacity)},
                   &group});
    PlacementCandidate& candidate = all.back().candidate;
    candidate.turns = candidate.room && model.TakesTurns(candidate.predicted, need, group.state.runs);
    first_s = FirstDone(first_s, group, need, capacity, candidate.predicted);
  }
  double done_s = std::numeric_limits<double>::infinity();
  for (const Ranked& one : all)
    if (one.candidate.room && !one.candidate.turns) done_s = std::min(done_s, one.candidate.predicted.done_s);
  for (Ranked& one : all) {
    PlacementCandidate& candidate = one.candidate;
    candidate.sooner =
        candidate.room && !candidate.idle && model.WaitsFor(first_s, candidate.predicted, need, one.group->state.runs);
  }
  std::ranges::sort(all, {}, [&](const Ranked& one) {
    const PlacementCandidate& c = one.candidate;
    const double late_s = model.AsGood(c.predicted.done_s, done_s) ? 0 : c.predicted.done_s;
    return std::tuple(!c.room, !c.idle, c.turns, late_s, c.predicted.lost_s, c.predicted.done_s,
                      one.group->state.run_ms, c.device);
  });
  if (all.size() > count_max) all.resize(count_max);
  std::vector<PlacementCandidate> candidates;
  for (Ranked& one : all) {
    const DeviceState& state = one.group->state;
    one.candidate.reason =
        WordsOf(one.candidate, need, state, cluster.NeighboursOf(state, room), cluster.CapacityOf(state), model);
    candidates.push_back(std::move(one.candidate));
  }
  return candidates;
}

}  // namespace weir::core
