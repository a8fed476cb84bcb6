// SPDX-License-Identifier: Apache-2.0
#include "core/placement/drain.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

namespace weir::core {
namespace {

TEST(Drain, AnEmptyDeviceDrainsAtOnceAndOneRunTakesItsTimeAlone) {
  EXPECT_EQ(Drain({}).done_s, 0);
  const DrainedKind one{.alone_s = 3, .runs = 1, .added = {5}};
  EXPECT_EQ(Drain(std::span(&one, 1)).done_s, 3);
  EXPECT_EQ(Drain(std::span(&one, 1)).lost_s, 0);
}

TEST(Drain, RunsInTurnsTakeAsLongAsInSequence) {
  const std::array<DrainedKind, 2> kinds{
      {{.alone_s = 1, .runs = 3, .added = {1, 1}}, {.alone_s = 5, .runs = 2, .added = {1, 1}}}};
  EXPECT_NEAR(Drain(kinds).done_s, 13, 1e-12);
  // The short runs end after 5 s, the long ones after 13 s.
  EXPECT_NEAR(Drain(kinds).lost_s, 3 * 4 + 2 * 8, 1e-12);
}

/// Simulates each run separately, without kinds.
Drained DrainOneByOne(std::span<const DrainedKind> kinds) {
  struct One {
    std::size_t kind;
    double left_s;
  };
  std::vector<One> runs;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    for (int run = 0; run < static_cast<int>(kinds[i].runs); ++run) runs.push_back({i, kinds[i].alone_s});
  Drained drained;
  while (!runs.empty()) {
    std::vector<double> slowdowns;
    double span = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      double slowdown = 1;
      for (std::size_t j = 0; j < runs.size(); ++j)
        if (j != i) slowdown += kinds[runs[i].kind].added[runs[j].kind];
      slowdowns.push_back(slowdown);
      span = std::min(span, runs[i].left_s * slowdown);
    }
    drained.done_s += span;
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].left_s -= span / slowdowns[i];
    std::erase_if(runs, [&](const One& run) {
      if (run.left_s > 1e-9) return false;
      drained.lost_s += drained.done_s - kinds[run.kind].alone_s;
      return true;
    });
  }
  return drained;
}

RC_GTEST_PROP(DrainLaws, EqualsARunByRunSimulation, ()) {
  std::vector<DrainedKind> kinds(*rc::gen::inRange<std::size_t>(1, kDrainedMax + 1));
  for (DrainedKind& kind : kinds) {
    kind.alone_s = *rc::gen::inRange(1, 3'000) / 1e3;
    kind.runs = *rc::gen::inRange(1, 4);
    for (double& added : kind.added) added = *rc::gen::element(0.0, 0.01, 0.3, 1.0, 5.0, 74.0);
  }
  const Drained drained = Drain(kinds), one_by_one = DrainOneByOne(kinds);
  RC_ASSERT(std::abs(drained.done_s - one_by_one.done_s) < 1e-6 * one_by_one.done_s);
  RC_ASSERT(std::abs(drained.lost_s - one_by_one.lost_s) < 1e-6 * (1 + one_by_one.lost_s));
}

}  // namespace
}  // namespace weir::core
