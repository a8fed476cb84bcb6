// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/prng.h"

namespace weir {
namespace {

template <typename C>
concept CanTellTheTime = requires {
  C::now();
};

TEST(Units, PureCodeCannotAskForTheTime) { EXPECT_FALSE(CanTellTheTime<NodeClock>); }

TEST(Units, ShareOfADurationDoesNotOverflow) {
  const Duration year = std::chrono::hours(24 * 365);
  EXPECT_EQ(Share::Whole().Of(year), year);
  EXPECT_EQ(Share::FromFraction(0.25).Of(milliseconds(8)), milliseconds(2));
}

RC_GTEST_PROP(Units, ShareIsMonotone, (std::uint32_t a, std::uint32_t b)) {
  const Share low{std::min(a, b) % 1'000'001}, high{std::max(low.ppm, b % 1'000'001)};
  RC_ASSERT(low.Of(seconds(1)) <= high.Of(seconds(1)));
}

TEST(Prng, TheSameSeedGivesTheSameNumbers) {
  Prng a(42), b(42);
  EXPECT_EQ(a.Next(), 13679457532755275413ULL);  // published first value of SplitMix64 for seed 42
  b.Next();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.Next(), b.Next());
}

}  // namespace
}  // namespace weir
