// SPDX-License-Identifier: Apache-2.0
// Cost of a task that is cut along one dimension: H(k) for the local parts and P(n − k) for the remote ones, see
// docs/partition.md. Private to plan.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/partition/plan.h"

namespace weir::core::partition {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// Time of a transfer; infinite if the rate is unknown.
inline double SecondsFor(std::uint64_t bytes, double bytes_per_s) {
  if (bytes == 0) return 0;
  return bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : kImpossible;
}

/// Copies and kernel of one launch. `there_already`: bytes of its inputs that are on the device.
inline double SecondsOn(const DeviceView& device, const PartNeed& need, double groups, Bytes there_already) {
  return SecondsOf(device.launch) +
         SecondsFor(need.sent.count - std::min(there_already, need.sent).count, device.in_bytes_per_s) +
         groups * device.group_s + SecondsFor(need.returned.count, device.out_bytes_per_s);
}

/// Time of a remote part: both directions of the link, and the peer's device.
inline double SecondsThere(const PeerView& peer, const PartNeed& need, double groups) {
  return SecondsOf(peer.link.queue) + 2 * SecondsOf(peer.link.latency) +
         static_cast<double>(need.stretches) * SecondsOf(peer.link.stretch) +
         SecondsFor(need.sent.count + need.returned.count, peer.link.bytes_per_s) + SecondsOf(peer.device.queue) +
         SecondsOn(peer.device, need, groups, Bytes{});
}

struct Ends {
  std::uint64_t low = 0, high = 0;
};

/// The first value in `ends` (inclusive) at which `rises` is at least 0. `rises` never falls, and is at least 0 at the
/// end. Needs and times are mostly affine in the cut, so a line through both ends finds the zero at once; otherwise
/// bisection continues.
template <typename Rises>
std::uint64_t FirstThat(Ends ends, Rises rises) {
  double below = rises(ends.low), above = rises(ends.high);
  if (ends.low >= ends.high || below >= 0) return ends.low;
  for (bool along_line = true; ends.high - ends.low > 1;) {
    const std::uint64_t apart = ends.high - ends.low;
    std::uint64_t step = apart / 2;
    if (along_line && below > -kImpossible && above < kImpossible)
      step = static_cast<std::uint64_t>(std::ceil(static_cast<double>(apart) * (-below / (above - below)))) - 1;
    step = std::clamp<std::uint64_t>(step, 1, apart - 1);
    // If the line is exact, this value is still below 0 and the next one is not.
    for (const std::uint64_t at : {ends.low + step, ends.low + step + 1}) {
      if (at >= ends.high) continue;
      const double here = rises(at);
      (here >= 0 ? ends.high : ends.low) = at;
      (here >= 0 ? above : below) = here;
      if (here >= 0 || !along_line) break;
    }
    along_line = ends.high - ends.low <= apart / 2;
  }
  return ends.high;
}

/// One task, cut along one dimension. `kept` (k) is the number of groups that stay local: the first ones.
class CutModel {
 public:
  CutModel(const TaskView& task, unsigned dimension)
      : task_(task), dimension_(dimension), count_(task.groups[dimension]) {
    for (unsigned other = 0; other < kDimensionsMax; ++other)
      if (other != dimension) row_ *= static_cast<double>(task.groups[other]);
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] PartNeed NeedOf(std::uint64_t first, std::uint64_t last) const {
    return task_.need->Of({dimension_, first, last});
  }
  [[nodiscard]] bool Fits(std::uint64_t first, std::uint64_t last, Bytes room) const {
    return NeedOf(first, last).device <= room;
  }
  [[nodiscard]] double GroupsIn(std::uint64_t first, std::uint64_t last) const {
    return static_cast<double>(last - first) * row_;
  }

  /// Cuts the groups into the fewest local pieces that fit, each as large as possible. Stops where a single group does
  /// not fit. H(k) is defined afterwards.
  void CutIntoPieces(const DeviceView& here, std::uint32_t pieces_max) {
    here_ = &here;
    ends_.clear();
    until_.clear();
    std::uint64_t first = 0, usual = 0;
    double seconds = SecondsOf(here.queue);
    while (first < count_ && ends_.size() < pieces_max) {
      const std::uint64_t last = first + MostFrom(first, usual, here.room);
      if (last == first) break;
      usual = last - first;
      seconds += PieceSeconds(first, last);
      ends_.push_back(last);
      until_.push_back(seconds);
      first = last;
    }
  }
  /// Groups [0, reach()) can run locally.
  [[nodiscard]] std::uint64_t reach() const { return ends_.empty() ? 0 : ends_.back(); }
  /// The cuts within [0, kept), for kept in 1 … reach().
  [[nodiscard]] std::vector<std::uint64_t> EndsOf(std::uint64_t kept) const {
    std::vector<std::uint64_t> ends(ends_.begin(), std::ranges::lower_bound(ends_, kept));
    ends.push_back(kept);
    return ends;
  }
  /// H(k), for kept in 1 … reach().
  [[nodiscard]] double Here(std::uint64_t kept) const {
    const auto piece = static_cast<std::size_t>(std::ranges::lower_bound(ends_, kept) - ends_.begin());
    if (kept == ends_[piece]) return until_[piece];
    if (piece == 0) return SecondsOf(here_->queue) + PieceSeconds(0, kept);
    return until_[piece - 1] + PieceSeconds(ends_[piece - 1], kept);
  }
  /// Approximates H(k) from the times of whole pieces, in proportion to groups, without evaluating needs.
  [[nodiscard]] double LocalSecondsAbout(std::uint64_t kept) const {
    const auto piece = static_cast<std::size_t>(std::ranges::lower_bound(ends_, kept) - ends_.begin());
    const double before = piece == 0 ? SecondsOf(here_->queue) : until_[piece - 1];
    const std::uint64_t first = piece == 0 ? 0 : ends_[piece - 1];
    return before +
           (until_[piece] - before) * static_cast<double>(kept - first) / static_cast<double>(ends_[piece] - first);
  }
  /// P(n − k), for k below n.
  [[nodiscard]] double There(const PeerView& peer, std::uint64_t kept) const { return There(peer, kept, count_); }
  [[nodiscard]] double There(const PeerView& peer, std::uint64_t first, std::uint64_t last) const {
    return SecondsThere(peer, NeedOf(first, last), GroupsIn(first, last));
  }
  /// The fewest groups that must stay local so that the others fit the peer.
  [[nodiscard]] std::uint64_t MinLocalGroups(Bytes room) const {
    return FirstThat({0, count_}, [&](std::uint64_t kept) {
      return kept == count_ ? static_cast<double>(room.count) : Spare(kept, count_, room);
    });
  }
  /// The cut between `low` and `high` (1 ≤ low ≤ high < n) at which the later of the two parts ends earliest. H grows
  /// with k and P falls, so it is at their crossing or one group before.
  [[nodiscard]] std::uint64_t BestCut(const PeerView& peer, std::uint64_t low, std::uint64_t high) const {
    const std::uint64_t from = FirstThat({low, high}, [&](std::uint64_t kept) {
      const double here = Here(kept), there = There(peer, kept);
      return here >= there || kept == high ? std::max(0.0, here - there) : here - there;
    });
    return from > low && Later(peer, from - 1) <= Later(peer, from) ? from - 1 : from;
  }
  /// The time of the part that ends later.
  [[nodiscard]] double Later(const PeerView& peer, std::uint64_t kept) const {
    return std::max(Here(kept), There(peer, kept));
  }

 private:
  [[nodiscard]] double PieceSeconds(std::uint64_t first, std::uint64_t last) const {
    const PartNeed need = NeedOf(first, last);
    return SecondsOn(*here_, need, GroupsIn(first, last), first == 0 ? Bytes{} : need.alike);
  }
  /// What [first, last) leaves of `room`; below 0: it doesn't fit.
  [[nodiscard]] double Spare(std::uint64_t first, std::uint64_t last, Bytes room) const {
    return static_cast<double>(room.count) - static_cast<double>(NeedOf(first, last).device.count);
  }
  /// The most groups from `first` on that fit. Pieces mostly have the size of the one before, which is `usual`.
  [[nodiscard]] std::uint64_t MostFrom(std::uint64_t first, std::uint64_t usual, Bytes room) const {
    Ends ends{0, count_ - first};
    if (usual > 0 && usual < ends.high && Fits(first, first + usual, room)) {
      if (!Fits(first, first + usual + 1, room)) return usual;
      ends.low = usual;
    }
    // The first count that does not fit, minus one.
    const auto lacks = [&](std::uint64_t groups) {
      const double spare = groups == 0 ? static_cast<double>(room.count) : Spare(first, first + groups, room);
      return spare < 0 ? -spare : -1.0 - spare;
    };
    if (lacks(ends.high) < 0) return ends.high;
    return FirstThat(ends, lacks) - 1;
  }

  const TaskView& task_;
  const unsigned dimension_;
  const std::uint64_t count_;
  double row_ = 1;  // groups in all other dimensions, for each index of the cut dimension
  const DeviceView* here_ = nullptr;
  std::vector<std::uint64_t> ends_;  // of the local pieces
  std::vector<double> until_;        // seconds from now to the end of each piece
};

}  // namespace weir::core::partition
