// SPDX-License-Identifier: Apache-2.0
#include "core/partition/shared_cut.h"

namespace weir::core::partition {
namespace {

/// Steps of the bisection of times, and attempts to reduce parts until they fit.
constexpr int kHalvings = 50, kShrinkingTurns = 8;

/// Seconds for m groups on a node, 1 <= m <= most: at_one + (m - 1) * each.
struct NodeLine {
  std::uint64_t most = 0;
  double at_one = 0, each = 0;

  /// Number of groups that are done by `by_s`.
  [[nodiscard]] std::uint64_t GroupsBy(double by_s) const {
    if (most == 0 || by_s < at_one) return 0;
    if (each <= 0) return most;
    const double groups = 1 + (by_s - at_one) / each;
    return groups >= static_cast<double>(most) ? most : static_cast<std::uint64_t>(groups);
  }
};

NodeLine LineOf(const CutModel& model, const PeerView& peer) {
  const std::uint64_t count = model.count();
  NodeLine line{.most = count - model.MinLocalGroups(peer.device.room)};
  if (line.most == 0) return line;
  line.at_one = model.There(peer, count - 1);
  if (line.at_one >= kImpossible) return {};
  if (line.most > 1)
    line.each = std::max(model.There(peer, count - line.most) - line.at_one, 0.0) / static_cast<double>(line.most - 1);
  return line;
}

/// The number of local groups that are done by `by_s`, at least one.
std::uint64_t LocalGroupsWithin(const CutModel& model, double by_s) {
  std::uint64_t low = 1, high = std::min(model.reach(), model.count());
  while (low < high) {
    const std::uint64_t middle = high - (high - low) / 2;
    if (model.LocalSecondsAbout(middle) <= by_s)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Ends of parts that take about the same time; empty if the nodes can't run all groups.
std::vector<std::uint64_t> EndsTogether(const CutModel& model, std::span<const NodeLine> lines) {
  const std::uint64_t count = model.count();
  const auto done_by = [&](double by_s) {
    std::uint64_t groups = LocalGroupsWithin(model, by_s);
    for (const NodeLine& line : lines) groups += std::min(line.GroupsBy(by_s), count);
    return groups;
  };
  double soon = 0, late = model.LocalSecondsAbout(model.reach());
  for (const NodeLine& line : lines)
    if (line.most > 0) late = std::max(late, line.at_one + line.each * static_cast<double>(line.most));
  if (late >= kImpossible || done_by(late) < count) return {};
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (soon + late) / 2;
    (done_by(middle) >= count ? late : soon) = middle;
  }
  // By `late` the nodes complete at least all groups. The last peer gets what the others leave.
  std::vector<std::uint64_t> ends{LocalGroupsWithin(model, late)};
  if (ends.front() == count) return {};
  for (const NodeLine& line : lines) ends.push_back(std::min(ends.back() + line.GroupsBy(late), count));
  return ends;
}

}  // namespace

std::vector<std::uint64_t> SharedEnds(const CutModel& model, std::span<const PeerView> peers) {
  const std::uint64_t count = model.count();
  if (count < 2 || model.reach() == 0) return {};
  std::vector<NodeLine> lines;
  for (const PeerView& peer : peers) lines.push_back(LineOf(model, peer));
  for (int turn = 0; turn < kShrinkingTurns; ++turn) {
    std::vector<std::uint64_t> ends = EndsTogether(model, lines);
    if (ends.empty() || FitsThere(model, ends, peers)) return ends;
    // A part in the middle may need more than the last part, on which the line is based, since it has two borders.
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (ends[i + 1] > ends[i] && !model.Fits(ends[i], ends[i + 1], peers[i].device.room))
        lines[i].most = ends[i + 1] - ends[i] - 1 - (ends[i + 1] - ends[i]) / 32;
  }
  return {};
}

std::vector<std::uint64_t> EqualEnds(const CutModel& model, std::uint64_t kept, std::size_t peers) {
  const std::uint64_t count = model.count();
  const std::uint64_t most = count > peers ? count - peers : 1;
  std::vector<std::uint64_t> ends{std::clamp<std::uint64_t>(kept, 1, most)};
  const std::uint64_t going = count - ends.front();
  for (std::size_t i = 1; i <= peers; ++i) ends.push_back(ends.front() + going * i / peers);
  return ends;
}

bool FitsThere(const CutModel& model, const std::vector<std::uint64_t>& ends, std::span<const PeerView> peers) {
  for (std::size_t i = 0; i < peers.size(); ++i)
    if (ends[i + 1] > ends[i] && !model.Fits(ends[i], ends[i + 1], peers[i].device.room)) return false;
  return true;
}

}  // namespace weir::core::partition
