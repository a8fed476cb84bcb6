// SPDX-License-Identifier: Apache-2.0
// What kernels of one kind add to the time of another: measured as a pair (`weir profile`), or seen of runs that had
// nothing but that kind beside them. What is known here needs no line through loads. Bounded: of the kinds that it
// knows the one of which nothing was learned for longest makes room. Page: docs/placement.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::core {

class PairTable {
 public:
  static constexpr std::size_t kKindsMax = 128;  // twice a profile's
  static constexpr double kUnknown = -1;

  /// `keep`: what an observation still counts after the next one of the same pair; 1: all for ever.
  explicit PairTable(double keep = 1) : keep_(keep) {}

  /// A run of `work` took `added` times its time alone longer, for each run of `beside` that was there all the time.
  /// Below 0 is 0: nobody is faster for company. A work of 0, and what is not finite, is ignored.
  void Observe(std::uint64_t work, std::uint64_t beside, double added);

  /// Where a work's figures lie, for AddedAt; kKindsMax: nothing is known of it. Good until the next Observe.
  [[nodiscard]] std::size_t PlaceOf(std::uint64_t work) const {
    for (std::size_t at = BucketOf(work);; at = (at + 1) % kBuckets) {
      if (buckets_[at] == 0) return kKindsMax;
      if (const std::size_t place = buckets_[at] - std::size_t{1}; works_[place] == work) return place;
    }
  }
  /// kUnknown where that pair is not known.
  [[nodiscard]] double AddedAt(std::size_t place, std::size_t beside) const {
    return place < kKindsMax && beside < kKindsMax ? seen_[place * kKindsMax + beside].added : kUnknown;
  }
  [[nodiscard]] double Added(std::uint64_t work, std::uint64_t beside) const {
    return AddedAt(PlaceOf(work), PlaceOf(beside));
  }

  [[nodiscard]] std::size_t kinds() const { return works_.size(); }
  /// Of which anything is known, either way round counted by itself.
  [[nodiscard]] std::size_t pairs() const;

 private:
  struct Seen {
    float added = kUnknown;
    float runs = 0;  // observations, old ones counted less
  };
  static constexpr std::size_t kBuckets = 4 * kKindsMax;
  static std::size_t BucketOf(std::uint64_t work) { return (work * 0x9E3779B97F4A7C15ULL) >> 55; }
  static_assert(kBuckets == 512, "the nine highest bits");

  std::size_t PlaceFor(std::uint64_t work, std::size_t not_this);
  void Index();

  double keep_;
  std::vector<std::uint64_t> works_;              // by place
  std::vector<std::uint64_t> learned_;            // likewise: when it was learned of last
  std::array<std::uint8_t, kBuckets> buckets_{};  // of works: place + 1; 0: none
  std::vector<Seen> seen_;                        // [place][beside]; empty while nothing is known
  std::uint64_t clock_ = 0;
};

}  // namespace weir::core
