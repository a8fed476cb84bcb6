// SPDX-License-Identifier: Apache-2.0
// Slowdown of kernels of one kind by kernels of another kind. It was measured for the pair (`weir profile`), or
// observed for runs that had only kernels of that kind beside them. A known pair needs no linear model. The table is
// bounded: a new kind replaces the one that was not observed for the longest time. Page: docs/placement.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::core {

class PairTable {
 public:
  static constexpr std::size_t kKindsMax = 128;  // twice the number in a profile
  static constexpr double kUnknown = -1;

  /// `keep`: factor for the weight of old observations of a pair at each new one; 1: no decay.
  explicit PairTable(double keep = 1) : keep_(keep) {}

  /// Records that each run of `beside` that was present throughout lengthened a run of `work` by `added` times its time
  /// alone. Negative values count as 0, since company makes no run faster. Ignores a work of 0 and values that are not
  /// finite.
  void Observe(std::uint64_t work, std::uint64_t beside, double added);

  /// Index of a work for AddedAt; kKindsMax if it is unknown. Valid until the next Observe.
  [[nodiscard]] std::size_t PlaceOf(std::uint64_t work) const {
    for (std::size_t at = BucketOf(work);; at = (at + 1) % kBuckets) {
      if (buckets_[at] == 0) return kKindsMax;
      if (const std::size_t place = buckets_[at] - std::size_t{1}; works_[place] == work) return place;
    }
  }
  /// kUnknown for an unknown pair.
  [[nodiscard]] double AddedAt(std::size_t place, std::size_t beside) const {
    return place < kKindsMax && beside < kKindsMax ? seen_[place * kKindsMax + beside].added : kUnknown;
  }
  [[nodiscard]] double Added(std::uint64_t work, std::uint64_t beside) const {
    return AddedAt(PlaceOf(work), PlaceOf(beside));
  }

  [[nodiscard]] std::size_t kinds() const { return works_.size(); }
  /// Number of known pairs; the two directions count separately.
  [[nodiscard]] std::size_t pairs() const;

 private:
  struct Seen {
    float added = kUnknown;
    float runs = 0;  // number of observations, with old ones weighted less
  };
  static constexpr std::size_t kBuckets = 4 * kKindsMax;
  static std::size_t BucketOf(std::uint64_t work) { return (work * 0x9E3779B97F4A7C15ULL) >> 55; }
  static_assert(kBuckets == 512, "the nine highest bits");

  /// The index of a work. A new work gets a free index, or that of another work, but not `not_this`.
  std::size_t PlaceFor(std::uint64_t work, std::size_t not_this);
  /// Rebuilds the hash table.
  void Index();

  double keep_;
  std::vector<std::uint64_t> works_;              // by index
  std::vector<std::uint64_t> learned_;            // by index: `clock_` at the last observation
  std::array<std::uint8_t, kBuckets> buckets_{};  // hash table of works: index + 1; 0: empty
  std::vector<Seen> seen_;                        // [index][beside]; empty while nothing is known
  std::uint64_t clock_ = 0;                       // counts observations
};

}  // namespace weir::core
