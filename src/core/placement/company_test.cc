// SPDX-License-Identifier: Apache-2.0
#include "core/placement/company.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace weir::core {
namespace {

RunNeed Working(std::uint64_t work) { return {MiB(1), {work, 0, 10, 1}, 100, work}; }

CompanyNow Now(std::initializer_list<std::uint64_t> works) {
  CompanyNow now;
  for (const std::uint64_t work : works) now.Add(Working(work));
  return now;
}

TEST(Company, APairOverlapsNearlyAllTheTime) {
  Company company;
  company.Pass(0.5, Working(1), Now({1}));
  company.Pass(9.5, Working(1), Now({1, 2}));
  EXPECT_EQ(company.Seen(2).only, 2U);
  EXPECT_NEAR(company.Seen(2).neighbours, 0.95, 1e-12);
  company.Pass(1, Working(1), Now({1}));
  EXPECT_EQ(company.Seen(2).only, 0U);
}

TEST(Company, SeveralOfOneKindAreAPairToo) {
  Company company;
  company.Pass(1, Working(1), Now({2, 1, 2}));
  EXPECT_EQ(company.Seen(2).only, 2U);
  Company alike;
  alike.Pass(1, Working(1), Now({1, 1, 1}));
  EXPECT_EQ(alike.Seen(2).only, 1U);
}

TEST(Company, SeveralOrUnknownKindsAreNotAPair) {
  for (const auto& now : {Now({1, 2, 3}), Now({1, 1, 2}), Now({1, 0}), Now({1, 2, 3, 4})}) {
    Company company;
    company.Pass(1, Working(1), now);
    EXPECT_EQ(company.Seen(2).only, 0U);
  }
  Company in_turn;
  in_turn.Pass(1, Working(1), Now({1, 2}));
  in_turn.Pass(1, Working(1), Now({1, 3}));
  EXPECT_EQ(in_turn.Seen(2).only, 0U);
  EXPECT_EQ(Company().Seen(2).slowdown, 0);
}

RC_GTEST_PROP(CompanyLaws, EqualsAListOfNeighbours, ()) {
  Company company;
  double span = 0, runs = 0, load = 0;
  std::size_t most = 0;
  std::set<std::uint64_t> works;
  const int steps = *rc::gen::inRange(1, 6);
  for (int step = 0; step < steps; ++step) {
    const auto others =
        *rc::gen::resize(4, rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 3)));
    const double seconds = *rc::gen::inRange(1, 100) / 10.0;
    CompanyNow now;
    now.Add(Working(1));
    for (const std::uint64_t other : others) now.Add(Working(other));
    company.Pass(seconds, Working(1), now);
    span += seconds;
    runs += seconds * static_cast<double>(others.size());
    for (const std::uint64_t other : others) load += seconds * static_cast<double>(other);
    works.insert(others.begin(), others.end());
    most = std::max(most, others.size());
  }
  const RunSeen seen = company.Seen(3);
  RC_ASSERT(std::abs(seen.neighbours - runs / span) < 1e-9);
  RC_ASSERT(std::abs(seen.beside[0] - load / span) < 1e-9);
  const bool pair = works.size() == 1 && !works.contains(0) && runs / span >= 0.9 * static_cast<double>(most);
  RC_ASSERT(seen.only == (pair ? *works.begin() : 0));
}

}  // namespace
}  // namespace weir::core
