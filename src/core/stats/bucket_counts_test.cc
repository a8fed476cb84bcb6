// SPDX-License-Identifier: Apache-2.0
#include "core/stats/bucket_counts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>
#include <vector>

#include "core/stats/frame_stats.h"

namespace weir::core {
namespace {

using Counts = std::vector<std::uint64_t>;

constexpr std::array<Duration, 3> kThree{milliseconds(1), milliseconds(3), milliseconds(10)};
constexpr std::array<Duration, 1> kOne{milliseconds(2)};
constexpr std::array<Duration, 4> kFour{nanoseconds(1), nanoseconds(2), nanoseconds(3), nanoseconds(4)};

template <const auto& kBounds>
CumulativeCounts CountsOf(const std::vector<Duration>& values) {
  BucketCounts<kBounds> counts;
  for (const Duration value : values) counts.Add(value);
  return counts.Cumulative();
}

TEST(BucketCounts, ABoundBelongsToItsBucket) {
  const CumulativeCounts all =
      CountsOf<kThree>({Duration{0}, milliseconds(1), microseconds(1'001), milliseconds(10), seconds(1)});
  EXPECT_EQ(all.counts, (Counts{2, 3, 4, 5}));
  EXPECT_EQ(all.sum, milliseconds(1) + microseconds(1'001) + milliseconds(10) + seconds(1));
  EXPECT_EQ(std::vector(all.bounds.begin(), all.bounds.end()), std::vector(kThree.begin(), kThree.end()));
}

TEST(BucketCounts, WithoutValuesAllCountsAreZero) {
  EXPECT_EQ(CountsOf<kThree>({}).counts, (Counts{0, 0, 0, 0}));
  EXPECT_EQ(CountsOf<kThree>({}).sum, Duration{0});
}

TEST(BucketCounts, AnyNumberOfBoundsWillDo) {
  EXPECT_EQ(CountsOf<kOne>({milliseconds(2), milliseconds(3)}).counts, (Counts{1, 2}));
  EXPECT_EQ(CountsOf<kFour>({nanoseconds(1), nanoseconds(2), nanoseconds(3), nanoseconds(4), nanoseconds(5)}).counts,
            (Counts{1, 2, 3, 4, 5}));
}

/// The laws for whatever values: each count is the number of values up to its bound, and the sum lies within what the
/// buckets allow.
template <const auto& kBounds>
void KeepsTheLaws() {
  const auto near_a_bound = rc::gen::map(
      rc::gen::pair(rc::gen::inRange<std::size_t>(0, kBounds.size()), rc::gen::inRange<std::int64_t>(-2, 3)),
      [](const std::pair<std::size_t, std::int64_t>& at) { return kBounds[at.first].count() + at.second; });
  const auto values = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 2'000'000'000), near_a_bound));
  std::vector<Duration> durations;
  for (const std::int64_t value : values) durations.emplace_back(value);
  const CumulativeCounts all = CountsOf<kBounds>(durations);

  RC_ASSERT(all.counts.size() == kBounds.size() + 1);
  RC_ASSERT(all.counts.back() == values.size());
  std::uint64_t before = 0;
  Duration least{}, most{}, below{};
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    RC_ASSERT(all.counts[i] >= before);
    RC_ASSERT(all.counts[i] == static_cast<std::uint64_t>(std::ranges::count_if(
                                   durations, [&](Duration value) { return value <= kBounds[i]; })));
    const auto here = static_cast<std::int64_t>(all.counts[i] - before);
    least += here * below;
    most += here * kBounds[i];
    before = all.counts[i];
    below = kBounds[i];
  }
  const auto beyond = static_cast<std::int64_t>(all.counts.back() - before);
  RC_ASSERT(all.sum >= least + beyond * below - Duration{2} * static_cast<std::int64_t>(values.size()));
  RC_ASSERT(beyond > 0 || all.sum <= most);
}

RC_GTEST_PROP(BucketCounts, FrameTimesKeepTheLaws, ()) { KeepsTheLaws<kFrameBounds>(); }
RC_GTEST_PROP(BucketCounts, WaitsKeepTheLaws, ()) { KeepsTheLaws<kWaitBounds>(); }
RC_GTEST_PROP(BucketCounts, FourBoundsKeepTheLaws, ()) { KeepsTheLaws<kFour>(); }

TEST(BucketCounts, ALateFrameOfACommonRateIsBeyondABound) {
  for (const double fps : {10, 20, 30, 40, 50, 60, 75, 90, 120, 144, 240}) {
    const Duration in_time = FromSeconds(1 / fps), late_after = FramePromise{.fps = fps}.LateAfter();
    const auto bound = std::ranges::lower_bound(kFrameBounds, late_after);
    ASSERT_NE(bound, kFrameBounds.end());
    ASSERT_NE(bound, kFrameBounds.begin());
    EXPECT_LT(*bound - late_after, milliseconds(1)) << fps << ": what lies between counts as in time";
    EXPECT_LT(*std::prev(bound), in_time) << fps << ": frames in time are in one bucket, although they vary a little";
  }
}

}  // namespace
}  // namespace weir::core
