// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/batch_bounds.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::core {
namespace {

using Call = BatchBounds::Call;

/// A program whose calls each cost `gpu` and follow each other after `apart`.
struct BatchLoop {
  BatchBounds bounds{};
  Instant now = Instant{} + seconds(5);
  Duration open{};  // GPU time since the last passage
  int calls = 0;
  int passages = 0;

  /// Makes one call. True: it passed the gate.
  bool Make(Duration gpu, Duration apart, Call call = Call::kEndsWork) {
    now += apart;
    open += gpu;
    ++calls;
    if (!bounds.Ends(now, call)) return false;
    bounds.Passed(now);
    bounds.Settled(std::exchange(open, Duration{}));
    ++passages;
    return true;
  }
};

TEST(BatchBounds, EachLongBatchPasses) {
  BatchLoop loop;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(loop.Make(milliseconds(30), microseconds(1))) << i;
}

TEST(BatchBounds, TinyBatchesPassTogether) {
  BatchLoop loop;
  for (int i = 0; i < 1600; ++i) loop.Make(microseconds(1), microseconds(1));
  EXPECT_GE(loop.passages, 1600 / BatchBounds::kCallsMost);
  EXPECT_LE(loop.passages, 1600 / BatchBounds::kCallsMost + 2);
}

TEST(BatchBounds, ACallThatComesLatePasses) {
  BatchLoop loop;
  loop.Make(microseconds(1), microseconds(1));
  EXPECT_FALSE(loop.Make(microseconds(1), BatchBounds::kLeast - nanoseconds(1)));
  EXPECT_TRUE(loop.Make(microseconds(1), nanoseconds(1)));
}

TEST(BatchBounds, LaunchesPassTheGateLessOftenThanOtherCalls) {
  BatchLoop loop;
  const auto make = [&](Duration gpu, Duration apart) { return loop.Make(gpu, apart, Call::kLaunches); };
  make(microseconds(1), microseconds(1));
  EXPECT_FALSE(make(microseconds(1), BatchBounds::kLaunchesLeast - nanoseconds(1)));
  EXPECT_TRUE(make(microseconds(1), nanoseconds(1)));
  int until = 1;
  while (!make(microseconds(1), microseconds(1))) ++until;
  EXPECT_EQ(until, BatchBounds::kLaunchesMost);
  for (int passed = 0; passed < 8;) passed += make(milliseconds(1), microseconds(1)) ? 1 : 0;  // calls have become long
  EXPECT_TRUE(make(milliseconds(1), microseconds(1)));
}

TEST(BatchBounds, DispatchesWithoutAnEndPassNowAndThen) {
  BatchLoop loop;
  loop.Make(milliseconds(1), microseconds(1));
  int until = 1;
  while (!loop.Make(milliseconds(1), microseconds(1), Call::kDispatches)) ++until;
  EXPECT_EQ(until, BatchBounds::kDispatchesMost);
  EXPECT_FALSE(loop.Make(milliseconds(1), BatchBounds::kDispatchesFor - nanoseconds(1), Call::kDispatches));
  EXPECT_TRUE(loop.Make(milliseconds(1), nanoseconds(1), Call::kDispatches));
}

/// Law for any program: the work that has not passed the gate is bounded, and so is the number of passages.
RC_GTEST_PROP(BatchBoundsLaws, WorkBetweenPassagesIsBounded, ()) {
  BatchLoop loop;
  const auto gpu = microseconds(*rc::gen::inRange<std::int64_t>(0, 50'000));
  const auto apart = nanoseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000));
  const int calls = *rc::gen::inRange(1, 500);
  for (int i = 0; i < calls; ++i) {
    loop.Make(gpu, apart);
    RC_ASSERT(loop.open <= BatchBounds::kLeast + gpu);
  }
  const Duration span = calls * apart, work = calls * gpu;
  RC_ASSERT(loop.passages <=
            span / BatchBounds::kLeast + work / BatchBounds::kLeast + calls / BatchBounds::kCallsMost + 2);
}

RC_GTEST_PROP(BatchBoundsLaws, APassageComesAfterAtMostSoManyCallsOfAnyCost, ()) {
  BatchLoop loop;
  int since = 0;
  for (int i = 0; i < 200; ++i) {
    const auto gpu = microseconds(*rc::gen::inRange<std::int64_t>(0, 1'000));
    since = loop.Make(gpu, nanoseconds(*rc::gen::inRange<std::int64_t>(0, 100))) ? 0 : since + 1;
    RC_ASSERT(since < BatchBounds::kCallsMost);
  }
}

}  // namespace
}  // namespace weir::core
