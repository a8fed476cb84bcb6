// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/promised_load.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace weir::core {
namespace {

using Claims = std::vector<PromiseClaim>;

double GrantedTo(const Claims& claims, std::uint64_t id) {
  return std::ranges::find(claims, VgpuId{id}, &PromiseClaim::id)->granted;
}
double Together(const Claims& claims, double PromiseClaim::*what) {
  return std::accumulate(claims.begin(), claims.end(), 0.0, [&](double sum, const auto& c) { return sum + c.*what; });
}

Claims AnyClaims() {
  Claims claims;
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 1; i <= count; ++i)
    claims.push_back({.id = VgpuId{static_cast<std::uint64_t>(i)},
                      .weight = *rc::gen::element(1U, 50U, 100U, 101U, 10'000U),
                      .need = *rc::gen::inRange(0, 1001) / 1000.0});
  return claims;
}

TEST(PromisedLoad, ARateNeedsItsFramesUpToItsCap) {
  EXPECT_NEAR(NeedOf(FromSeconds(1.0 / 60), milliseconds(5), Share::Whole()), 0.3, 1e-6);
  EXPECT_NEAR(NeedOf(FromSeconds(1.0 / 60), milliseconds(5), Share::FromFraction(0.2)), 0.2, 1e-6);
  EXPECT_EQ(NeedOf(Duration{0}, milliseconds(5), Share::Whole()), 0);
}

TEST(Grant, TheLightestGivesWayFirst) {
  Claims claims{{.id = VgpuId{1}, .weight = 50, .need = 0.5},
                {.id = VgpuId{2}, .weight = 100, .need = 0.5},
                {.id = VgpuId{3}, .weight = 10, .need = 0.3}};
  Grant(claims);
  EXPECT_DOUBLE_EQ(GrantedTo(claims, 2), 0.5);
  EXPECT_DOUBLE_EQ(GrantedTo(claims, 1), 0.5);
  EXPECT_DOUBLE_EQ(GrantedTo(claims, 3), 0);
  EXPECT_EQ(claims[0].id, VgpuId{2}) << "the heaviest first";
  EXPECT_TRUE(claims[2].gives_way());
  EXPECT_FALSE(claims[0].gives_way());
}

TEST(Grant, EqualWeightsGiveWayInProportion) {
  Claims claims{{.id = VgpuId{1}, .weight = 100, .need = 0.8}, {.id = VgpuId{2}, .weight = 100, .need = 0.4}};
  Grant(claims);
  EXPECT_NEAR(GrantedTo(claims, 1), 2.0 / 3, 1e-12);
  EXPECT_NEAR(GrantedTo(claims, 2), 1.0 / 3, 1e-12);
}

RC_GTEST_PROP(Grant, GivesTheDeviceAndNoMore, ()) {
  Claims claims = AnyClaims();
  Grant(claims);
  const double needed = Together(claims, &PromiseClaim::need);
  RC_ASSERT(std::abs(Together(claims, &PromiseClaim::granted) - std::min(needed, 1.0)) < 1e-9);
  for (const PromiseClaim& claim : claims) RC_ASSERT(claim.granted >= 0 && claim.granted <= claim.need);
  if (needed < 1 - 1e-9) RC_ASSERT(std::ranges::none_of(claims, &PromiseClaim::gives_way));
}

RC_GTEST_PROP(Grant, NothingIsLeftToALighterOneThatAHeavierOneLacks, ()) {
  Claims claims = AnyClaims();
  Grant(claims);
  for (const PromiseClaim& heavy : claims)
    for (const PromiseClaim& light : claims)
      if (heavy.weight > light.weight && heavy.gives_way()) RC_ASSERT(light.granted <= 1e-12);
}

RC_GTEST_PROP(Grant, DoesNotDependOnTheListedOrder, ()) {
  Claims claims = AnyClaims(), turned = claims;
  std::ranges::reverse(turned);
  Grant(claims);
  Grant(turned);
  for (const PromiseClaim& claim : claims) RC_ASSERT(GrantedTo(turned, claim.id.value) == claim.granted);
}

TEST(FitWatch, SaysOnceThatPromisesDontFitAndOnceThatTheyDo) {
  FitWatch watch;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(watch.See(1.2), FitWatch::Change::kNone);
  EXPECT_EQ(watch.See(1.2), FitWatch::Change::kOver);
  EXPECT_FALSE(watch.fits());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(watch.See(1.2), FitWatch::Change::kNone);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(watch.See(0.97), FitWatch::Change::kNone) << "within the band";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(watch.See(0.9), FitWatch::Change::kNone);
  EXPECT_EQ(watch.See(0.9), FitWatch::Change::kFits);
}

// Costs of frames vary: a load that crosses the line for less than kChecks is not reported.
RC_GTEST_PROP(FitWatch, IsSilentWhereTheLoadOnlySwings, ()) {
  FitWatch watch;
  const int within = *rc::gen::inRange(1, FitWatch::kChecks);
  for (int i = 0; i < 50; ++i) {
    for (int k = 0; k < within; ++k) RC_ASSERT(watch.See(1.3) == FitWatch::Change::kNone);
    RC_ASSERT(watch.See(0.5) == FitWatch::Change::kNone);
  }
}

}  // namespace
}  // namespace weir::core
