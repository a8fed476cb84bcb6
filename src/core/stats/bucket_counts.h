// SPDX-License-Identifier: Apache-2.0
// Counts of durations in a few fixed buckets, and their sum. The counts of two times can be subtracted, and those of
// several vGPUs added, which percentiles do not allow: this is what a histogram of Prometheus is made of.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace weir::core {

/// A copy of counts, as Prometheus has them.
struct CumulativeCounts {
  std::span<const Duration> bounds;
  std::vector<std::uint64_t> counts;  // of values up to each bound, the bound included; and last, of all values
  Duration sum{};                     // of all values
};

/// `kBounds`: an array of Duration, in ascending order. A value beyond the last bound is in a bucket of its own.
template <const auto& kBounds>
class BucketCounts {
 public:
  /// Without a branch: frames of different programs would make it hard to predict. The octave of the value leaves few
  /// bounds to compare it with.
  void Add(Duration value) {
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(value.count(), 0));
    const std::size_t first = kTable.first[static_cast<std::size_t>(std::bit_width(ns))];
    std::size_t below = first;  // number of bounds below the value
    for (std::size_t i = 0; i < kTable.most; ++i) below += kTable.bounds[first + i] < value.count() ? 1U : 0U;
    ++counts_[below];
    sum_ += value;
  }
  [[nodiscard]] CumulativeCounts Cumulative() const {
    CumulativeCounts all{.bounds = kBounds, .counts = {counts_.begin(), counts_.end()}, .sum = sum_};
    for (std::size_t i = 1; i < all.counts.size(); ++i) all.counts[i] += all.counts[i - 1];
    return all;
  }

 private:
  static constexpr std::size_t kSize = kBounds.size();
  static_assert(kSize > 0 && kSize < 256 && std::ranges::is_sorted(kBounds) && kBounds.front() > Duration{0});

  struct Table {
    std::array<std::uint8_t, 65> first{};          // by the value's number of bits: bounds below all such values
    std::size_t most = 0;                          // bounds with the same number of bits
    std::array<std::int64_t, 2 * kSize> bounds{};  // followed by some that no value exceeds
  };
  static constexpr Table kTable = [] {
    Table table;
    std::ranges::fill(table.bounds, Duration::max().count());
    std::array<std::size_t, 65> with{};
    for (std::size_t i = 0; i < kSize; ++i) {
      table.bounds[i] = kBounds[i].count();
      const auto bits = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(kBounds[i].count())));
      table.most = std::max(table.most, ++with[bits]);
      for (std::size_t more = bits + 1; more < table.first.size(); ++more) ++table.first[more];
    }
    return table;
  }();

  std::array<std::uint64_t, kSize + 1> counts_{};
  Duration sum_{};
};

}  // namespace weir::core
