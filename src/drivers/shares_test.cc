// SPDX-License-Identifier: Apache-2.0
#include "drivers/shares.h"

#include <gtest/gtest.h>

#include "drivers/engine_driver.h"

namespace weir::drivers {
namespace {

TEST(Shares, AllOfADeviceFitItHoweverItIsCut) {
  for (std::int64_t whole = 1; whole <= 300; ++whole) {
    const double cap = CapOf(1, whole);
    EXPECT_LE(cap * static_cast<double>(whole), 1.0 + 1e-12) << whole;
    EXPECT_EQ(SharesOf(cap, whole), 1) << whole;
    for (const std::int64_t n : {std::int64_t{0}, whole / 3, whole})
      EXPECT_EQ(SharesOf(CapOf(n, whole), whole), n) << n << " of " << whole;
  }
  EXPECT_EQ(CapOf(9, 8), 1.0);
}

TEST(Shares, EachOfTheMostSharesCanBeAVgpuAndWeighsTheSame) {
  constexpr double kLeastCap = 0.01;
  for (std::int64_t whole = 1; whole <= kWholeMax; ++whole) EXPECT_GE(CapOf(1, whole), kLeastCap) << whole;
  EXPECT_EQ(WeightOf(1), 100);
  EXPECT_EQ(WeightOf(2), 200);
  EXPECT_EQ(WeightOf(kWholeMax), 10'000);
  EXPECT_EQ(WeightOf(kWholeMax + 1), 10'000) << "no vGPU has more";
}

TEST(Shares, SellableSharesAreTheSoldPlusWholeSharesOfTheOffer) {
  NodeView node{.sells = true, .offer = 0.3, .vgpus = {{"os-a", 0.25}, {"os-b", 0.125}}};
  EXPECT_EQ(SellableOf(node, 8), 3 + 2);
  node.offer = 0;
  EXPECT_EQ(SellableOf(node, 8), 3) << "lowered to what is used";
  node.offer = 0.124999;
  EXPECT_EQ(SellableOf(node, 8), 3);
  node.offer = 17;
  EXPECT_EQ(SellableOf(node, 8), 3 + 8) << "no more than a device at once";
  node.offer = -1;
  EXPECT_EQ(SellableOf(node, 8), 3);
  node.sells = false;
  EXPECT_EQ(SellableOf(node, 8), 8);
  EXPECT_EQ(SellableOf({.sells = true, .offer = 1 - 5 * CapOf(1, 6), .vgpus = {}}, 6), 1) << "what five sixths leave";
}

TEST(Shares, RatiosSellExactlyWhatTheyAreMadeForInSinglePrecisionToo) {
  EXPECT_EQ(RatioFor(12, 8), 1.5);
  EXPECT_EQ(RatioFor(0, 8), 0.0);
  for (std::int64_t total = 1; total <= 200; ++total)
    for (std::int64_t n = 0; n <= 4 * total; ++n) {
      const double ratio = RatioFor(n, total);
      ASSERT_EQ(SellableByRatio(ratio, total), n) << total;
      ASSERT_EQ(SellableByRatio(static_cast<double>(static_cast<float>(ratio)), total), n) << total;
    }
}

TEST(Shares, NamesOfVgpusAreTheirConsumers) {
  EXPECT_EQ(VgpuNameOf("os", "1e2d-AB").value(), "os-1e2d-AB");
  for (const char* bad : {"", "../x", "a b", "a\n", "a/b"}) EXPECT_FALSE(VgpuNameOf("os", bad)) << bad;
  EXPECT_FALSE(VgpuNameOf("os", std::string(61, 'x')));
  EXPECT_TRUE(VgpuNameOf("os", std::string(60, 'x')));
  EXPECT_TRUE(IsConsumersVgpu("os", "os-1"));
  for (const char* other : {"os", "os-", "osx-1", "game", ""}) EXPECT_FALSE(IsConsumersVgpu("os", other)) << other;
}

TEST(Shares, FindsGrantsAndReleasesByComparison) {
  const std::vector<Grant> before{{"a", 1, {}}, {"b", 2, {}}, {"c", 1, {}}},
      after{{"b", 2, {}}, {"c", 3, {}}, {"d", 1, {}}};
  const GrantChanges changes = CompareGrants(before, after);
  EXPECT_EQ(changes.granted, (std::vector<Grant>{{"c", 3, {}}, {"d", 1, {}}}));
  EXPECT_EQ(changes.released, (std::vector<Grant>{{"a", 1, {}}, {"c", 1, {}}}));
}

}  // namespace
}  // namespace weir::drivers
