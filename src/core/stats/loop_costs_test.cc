// SPDX-License-Identifier: Apache-2.0
#include "core/stats/loop_costs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::core {
namespace {

/// One frame of a loop every 10 ms.
class Costed {
 public:
  void Draw(int frames, std::uint64_t loop, Duration gpu, std::uint32_t count = 1) {
    for (int i = 0; i < frames; ++i) {
      now_ += milliseconds(10);
      costs_.Add(
          {.begin = now_ - milliseconds(10), .present = now_, .end = now_, .gpu = gpu, .loop = loop, .count = count});
    }
  }
  void Pass(Duration span) { now_ += span; }
  [[nodiscard]] LoopCost Now() const { return costs_.Now(); }

 private:
  Instant now_ = InstantFromNs(5'000'000'000);
  LoopCosts costs_;
};

TEST(LoopCosts, AreUnknownBeforeSomeFrames) {
  Costed vgpu;
  EXPECT_EQ(vgpu.Now().loops, 0U);
  vgpu.Draw(LoopCosts::kKnownAfter, 1, milliseconds(3));
  EXPECT_EQ(vgpu.Now().loops, 0U);
  vgpu.Draw(1, 1, milliseconds(3));
  EXPECT_EQ(vgpu.Now().loops, 1U);
  EXPECT_EQ(vgpu.Now().each, milliseconds(3));
}

TEST(LoopCosts, AreNotThoseOfTheFirstFrame) {
  Costed vgpu;
  vgpu.Draw(1, 1, milliseconds(500));
  vgpu.Draw(10, 1, milliseconds(3));
  EXPECT_EQ(vgpu.Now().each, milliseconds(3));
}

TEST(LoopCosts, OfAllLoopsAreSummed) {
  Costed vgpu;
  for (int i = 0; i < 20; ++i) {
    vgpu.Draw(1, 1, milliseconds(3));
    vgpu.Draw(1, 2, milliseconds(5));
  }
  EXPECT_EQ(vgpu.Now().each, milliseconds(8)) << "each window has its rate";
  EXPECT_EQ(vgpu.Now().loops, 2U);
}

TEST(LoopCosts, OfALoopThatEndedCountUntilAnotherGoesOn) {
  Costed vgpu;
  vgpu.Draw(20, 1, milliseconds(3));
  vgpu.Pass(seconds(3600));
  EXPECT_EQ(vgpu.Now().each, milliseconds(3)) << "the promise to an idle vGPU stands";
  vgpu.Draw(20, 2, milliseconds(5));
  EXPECT_EQ(vgpu.Now().each, milliseconds(5));
}

TEST(LoopCosts, FollowAChangeOfScene) {
  Costed vgpu;
  vgpu.Draw(100, 1, milliseconds(1));
  vgpu.Draw(50, 1, milliseconds(10));
  EXPECT_NEAR(MillisecondsOf(vgpu.Now().each), 10, 0.5);
}

// A batch may end several tasks. A long task has several parts, and only the last one ends the task.
TEST(LoopCosts, AreOfWholeTasks) {
  Costed batches, parts;
  batches.Draw(20, 1, milliseconds(8), 4);
  EXPECT_EQ(batches.Now().each, milliseconds(2));
  for (int i = 0; i < 20; ++i) {
    parts.Draw(9, 1, milliseconds(2), 0);
    parts.Draw(1, 1, milliseconds(2));
  }
  EXPECT_EQ(parts.Now().each, milliseconds(20));
}

RC_GTEST_PROP(LoopCosts, AreWithinWhatTheFramesCost, ()) {
  Costed vgpu;
  const auto loops = *rc::gen::inRange<std::uint64_t>(1, 12);
  const auto least = *rc::gen::inRange(0, 1000), most = least + *rc::gen::inRange(0, 100'000);
  for (int i = 0; i < 20; ++i)
    for (std::uint64_t loop = 0; loop < loops; ++loop)
      vgpu.Draw(1, loop, microseconds(*rc::gen::inRange(least, most + 1)));
  const LoopCost now = vgpu.Now();
  RC_ASSERT(now.loops <= LoopCosts::kLoops);
  if (loops <= LoopCosts::kLoops) RC_ASSERT(now.loops == loops);
  RC_ASSERT(now.each >= microseconds(least) * now.loops && now.each <= microseconds(most) * now.loops);
}

}  // namespace
}  // namespace weir::core
