// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/rate_caps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace weir::core {
namespace {

using RateClaims = std::vector<RateClaim>;

constexpr double kLeastCap = 0.1;

double CapOf(const RateClaims& claims, std::uint64_t id) {
  return std::ranges::find(claims, VgpuId{id}, &RateClaim::id)->cap;
}

/// Claims with drawn needs and weights. `before`: the part of each need that was granted before.
RateClaims AnyRateClaims(double before) {
  RateClaims claims;
  const int count = *rc::gen::inRange(2, 9);
  for (int i = 1; i <= count; ++i) {
    const double need = *rc::gen::inRange(0, 1501) / 1000.0;
    claims.push_back({.id = VgpuId{static_cast<std::uint64_t>(i)},
                      .weight = *rc::gen::element(50U, 100U, 200U),
                      .need = need,
                      .granted = need * before});
  }
  return claims;
}

TEST(RateCaps, AreAQuarterAboveWhatThePromiseNeeds) {
  RateClaims claims{{.id = VgpuId{1}, .weight = 100, .need = 0.24}, {.id = VgpuId{2}, .weight = 100, .need = 0.36}};
  CapRates(claims);
  EXPECT_DOUBLE_EQ(CapOf(claims, 1), 0.30);
  EXPECT_DOUBLE_EQ(CapOf(claims, 2), 0.45);
}

TEST(RateCaps, WithoutAnotherPromiseThereIsNone) {
  RateClaims claims{{.id = VgpuId{1}, .need = 0.24, .granted = 0.24}};
  CapRates(claims);
  EXPECT_EQ(claims[0].cap, 1);
}

TEST(RateCaps, AnUnknownCostMayUseWhatTheOthersLeave) {
  RateClaims claims{{.id = VgpuId{1}, .weight = 100, .need = 0.24, .granted = 0.24},
                    {.id = VgpuId{2}, .weight = 10, .need = 0.36, .granted = 0.36},
                    {.id = VgpuId{3}, .weight = 100}};
  CapRates(claims);
  EXPECT_NEAR(CapOf(claims, 3), 0.40, 1e-12) << "also lighter ones keep their needs until the cost is known";
  claims[2].need = claims[1].need = 0.9;
  std::ranges::find(claims, VgpuId{3}, &RateClaim::id)->need = 0;
  CapRates(claims);
  EXPECT_EQ(CapOf(claims, 3), kLeastCap);
}

TEST(RateCaps, GrowWithTheCostAsFarAsTheOthersLeaveRoom) {
  RateClaims claims{{.id = VgpuId{1}, .weight = 100, .need = 0.36}, {.id = VgpuId{2}, .weight = 100, .need = 0.24}};
  CapRates(claims);
  for (const double need : {0.3, 0.4, 0.5}) {
    std::ranges::find(claims, VgpuId{2}, &RateClaim::id)->need = need;
    CapRates(claims);
    EXPECT_NEAR(CapOf(claims, 2), need * 1.25, 0.001 + (need > 0.45 ? 0.03 : 0)) << need;
  }
  std::ranges::find(claims, VgpuId{2}, &RateClaim::id)->need = 0.9;
  CapRates(claims);
  EXPECT_NEAR(CapOf(claims, 2), 0.64, 1e-12) << "a promise of the same weight needs the rest";
  EXPECT_NEAR(CapOf(claims, 1), 0.45, 1e-12);
}

TEST(RateCaps, AFewCheapFramesLoseNothingThatWasGranted) {
  EXPECT_EQ(NeedSince(0.4, 0.5), 0.5);
  double need = 0.5;
  for (int i = 0; i < 20; ++i) need = NeedSince(need, 0.3);
  EXPECT_NEAR(need, 0.45, 0.01) << "after a second";
  for (int i = 0; i < 200; ++i) need = NeedSince(need, 0.3);
  EXPECT_EQ(need, 0.3);
}

TEST(RateCaps, AHeavierVgpuTakesWhatItNeedsFromLighterOnes) {
  RateClaims claims{{.id = VgpuId{1}, .weight = 50, .need = 0.6}, {.id = VgpuId{2}, .weight = 50, .need = 0.3}};
  CapRates(claims);
  EXPECT_NEAR(CapOf(claims, 1), 0.75, 0.051);
  claims.push_back({.id = VgpuId{3}, .weight = 200, .need = 0.5});
  CapRates(claims);
  EXPECT_NEAR(CapOf(claims, 3), 0.625, 1e-12);
  EXPECT_LE(std::min(CapOf(claims, 1), 0.6) + std::min(CapOf(claims, 2), 0.3), 0.5 + 1e-9);
}

TEST(RateCaps, AnOwnCapStaysAndCountsWithItsNeed) {
  RateClaims claims{{.id = VgpuId{1}, .weight = 100, .need = 0.4, .own_cap = true},
                    {.id = VgpuId{2}, .weight = 100, .need = 0.7}};
  CapRates(claims);
  EXPECT_EQ(CapOf(claims, 1), 1) << "not set";
  EXPECT_NEAR(CapOf(claims, 2), 0.6, 1e-12);
}

RC_GTEST_PROP(RateCaps, WhatIsGrantedFitsTheDevice, ()) {
  RateClaims claims = AnyRateClaims(*rc::gen::element(0.0, 0.5, 1.0));
  for (RateClaim& claim : claims) claim.weight = 100;
  CapRates(claims);
  double granted = 0;
  for (const RateClaim& claim : claims) {
    RC_ASSERT(claim.cap >= kLeastCap && claim.cap <= 1);
    RC_ASSERT(claim.granted == std::min(claim.need, claim.cap));
    granted += claim.granted;
  }
  RC_ASSERT(granted <= 1 + kLeastCap * static_cast<double>(claims.size()) + 1e-9);
}

RC_GTEST_PROP(RateCaps, WherePromisesFitEachMayUseWhatItNeeds, ()) {
  RateClaims claims = AnyRateClaims(1);
  double needed = 0;
  for (const RateClaim& claim : claims) needed += claim.need;
  for (RateClaim& claim : claims) claim.need = claim.granted = claim.need / std::max(needed * 1.001, 1.0);
  CapRates(claims);
  for (const RateClaim& claim : claims) RC_ASSERT(claim.cap >= claim.need - 1e-9);
}

RC_GTEST_PROP(RateCaps, NoVgpuGrowsAtTheCostOfOthersOfItsWeight, ()) {
  RateClaims claims = AnyRateClaims(0);
  for (RateClaim& claim : claims) {
    claim.weight = 100;
    claim.need = std::max(claim.need, kLeastCap);
  }
  CapRates(claims);
  double granted = 0;
  for (const RateClaim& claim : claims) granted += claim.granted;
  RC_PRE(granted <= 1);
  const RateClaims before = claims;
  claims[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(claims.size())))].need = 1.5;
  CapRates(claims);
  for (const RateClaim& then : before) RC_ASSERT(CapOf(claims, then.id.value) >= then.granted - 1e-9);
}

RC_GTEST_PROP(RateCaps, DoNotDependOnTheListedOrder, ()) {
  RateClaims claims = AnyRateClaims(1), turned = claims;
  std::ranges::reverse(turned);
  CapRates(claims);
  CapRates(turned);
  for (const RateClaim& claim : claims) RC_ASSERT(CapOf(turned, claim.id.value) == claim.cap);
}

}  // namespace
}  // namespace weir::core
