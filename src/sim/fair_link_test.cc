// SPDX-License-Identifier: Apache-2.0
#include "sim/fair_link.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

namespace weir::sim {
namespace {

constexpr Instant kLinkBegin = InstantFromNs(1'000'000'000);

/// Runs until all flows are done, and returns when each was, in seconds since the beginning.
std::map<std::uint32_t, double> DoneTimes(FairLink& link) {
  std::map<std::uint32_t, double> done_s;
  while (const auto next = link.NextDone())
    for (const std::uint32_t flow : link.TakeDone(*next)) done_s[flow] = SecondsOf(*next - kLinkBegin);
  return done_s;
}

TEST(FairLink, FlowsShareItEvenly) {
  FairLink link(100);
  link.Add(kLinkBegin, 1, 100);
  link.Add(kLinkBegin, 2, 300);
  auto done = DoneTimes(link);
  EXPECT_NEAR(done[1], 2, 1e-6);  // each has half of the link
  EXPECT_NEAR(done[2], 4, 1e-6);  // then all of the link
}

TEST(FairLink, OneThatComesLaterSlowsTheOthersFromThenOn) {
  FairLink link(100);
  link.Add(kLinkBegin, 1, 200);
  link.Add(kLinkBegin + seconds(1), 2, 50);
  auto done = DoneTimes(link);
  EXPECT_NEAR(done[2], 2, 1e-6);
  EXPECT_NEAR(done[1], 2.5, 1e-6);
}

TEST(FairLink, AChangedRateHoldsForWhatIsLeft) {
  FairLink link(100);
  link.Add(kLinkBegin, 1, 200);
  link.SetRate(kLinkBegin + seconds(1), 10);
  EXPECT_NEAR(DoneTimes(link)[1], 11, 1e-6);
}

RC_GTEST_PROP(FairLinkLaw, CarriesAsMuchAsItsRateWhileAnythingFlows, ()) {
  FairLink link(1000);
  double amount = 0;
  std::uint32_t flows = 0;
  for (const int one : *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 5'000)))) {
    link.Add(kLinkBegin, flows++, one, 1 + *rc::gen::inRange(0, 3) * 0.5);
    amount += one;
  }
  const auto done = DoneTimes(link);
  RC_ASSERT(done.size() == flows);
  double last_s = 0;
  for (const auto& [flow, at_s] : done) last_s = std::max(last_s, at_s);
  RC_ASSERT(std::abs(last_s - amount / 1000) < 1e-5 * (flows + 1));
}

}  // namespace
}  // namespace weir::sim
