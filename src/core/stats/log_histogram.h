// SPDX-License-Identifier: Apache-2.0
// Histogram of durations in log-linear buckets: percentiles within 1 % of the true value from 0.1 ms to over two hours.
// Memory covers the octaves between the shortest and the longest value; a program's frames span two or three octaves.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weir::core {

class LogHistogram {
 public:
  void Add(Duration value) {
    ++At(BucketOf(value));
    ++total_;
    if (value > max_) max_ = value;
  }
  /// Keeps the allocated memory.
  void Clear() {
    std::ranges::fill(counts_, 0);
    total_ = 0;
    max_ = Duration{0};
  }
  void Merge(const LogHistogram& other) {
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
      if (other.counts_[i] > 0) At(other.first_ + i) += other.counts_[i];
    total_ += other.total_;
    if (other.max_ > max_) max_ = other.max_;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] Duration max() const { return max_; }

  /// Nearest rank: the smallest recorded value (to bucket precision) that at least `fraction` of all values don't
  /// exceed. Zero when empty.
  [[nodiscard]] Duration Percentile(double fraction) const {
    if (total_ == 0) return Duration{0};
    auto rank = static_cast<std::uint64_t>(fraction * static_cast<double>(total_) + 0.999999999);
    if (rank < 1) rank = 1;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return MiddleOf(first_ + i) < max_ ? MiddleOf(first_ + i) : max_;
    }
    return max_;
  }

 private:
  static constexpr std::uint32_t kSubBits = 6;  // 64 buckets per octave, each at most 1/64 of its value wide
  static constexpr std::uint32_t kSub = 1U << kSubBits;
  static constexpr std::uint32_t kOctaves = 28;

  std::uint32_t& At(std::size_t bucket) {
    if (bucket < first_ || bucket >= first_ + counts_.size()) Reach(bucket / kSub * kSub);
    return counts_[bucket - first_];
  }
  /// Grows by whole octaves, so that growth is rare.
  void Reach(std::size_t octave) {
    if (counts_.empty()) first_ = octave;
    if (octave < first_) {
      counts_.insert(counts_.begin(), first_ - octave, 0);
      first_ = octave;
    }
    counts_.resize(std::max(counts_.size(), octave + kSub - first_));
  }
  static std::size_t BucketOf(Duration value) {
    const std::int64_t us = value.count() / 1000;
    if (us < static_cast<std::int64_t>(kSub)) return us < 0 ? 0 : static_cast<std::size_t>(us);
    const auto u = static_cast<std::uint64_t>(us);
    const std::uint32_t octave = static_cast<std::uint32_t>(std::bit_width(u)) - kSubBits;  // ≥ 1
    if (octave >= kOctaves) return kOctaves * kSub - 1;
    return octave * kSub + static_cast<std::size_t>((u >> (octave - 1)) & (2 * kSub - 1)) - kSub;
  }
  static Duration MiddleOf(std::size_t bucket) {
    const std::size_t octave = bucket / kSub;
    const std::size_t sub = bucket % kSub;
    if (octave == 0) return microseconds(sub) + nanoseconds(500);
    const std::uint64_t width_us = std::uint64_t{1} << (octave - 1);
    return microseconds((kSub + sub) * width_us) + nanoseconds(500 * width_us);
  }

  std::vector<std::uint32_t> counts_;  // starting with the bucket `first_`
  std::size_t first_ = 0;
  std::uint64_t total_ = 0;
  Duration max_{};
};

}  // namespace weir::core
