// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/round_robin.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

/// vGPUs that always want the device, with frames of `frame` each; one frame at a time runs.
struct TurnBench {
  explicit TurnBench(const std::vector<Duration>& frame_lengths)
      : frames(frame_lengths), verdicts(frame_lengths.size()) {
    for (std::size_t i = 0; i < frames.size(); ++i)
      views.push_back({.id = VgpuId{i + 1}, .slot = static_cast<std::uint32_t>(i), .waiting = 1, .attached = true});
  }
  /// The vGPU that may run now; -1: none.
  int Look() {
    now += microseconds(500);
    for (VgpuView& view : views)
      if (view.waiting + view.in_flight > 0) view.last_active = now;
    policy->Decide({now, views}, verdicts);
    int holder = -1;
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (verdicts[i].allowance <= Duration{0} || views[i].waiting == 0) continue;
      EXPECT_EQ(holder, -1) << "two at once";
      holder = static_cast<int>(i);
    }
    return holder;
  }
  void RunOneFrame() {
    const int i = Look();
    if (i < 0) return;
    VgpuView& view = views[static_cast<std::size_t>(i)];
    view.used += frames[static_cast<std::size_t>(i)];
    now += frames[static_cast<std::size_t>(i)];
    view.last_active = now;
  }

  std::unique_ptr<Policy> policy = *MakePolicy("round-robin", {});
  std::vector<Duration> frames;
  std::vector<VgpuView> views;
  std::vector<Verdict> verdicts;
  Instant now = InstantFromNs(1'000'000'000);
};

TEST(RoundRobin, TheTurnGoesRoundInTheOrderOfSlots) {
  TurnBench b({milliseconds(2), milliseconds(2), milliseconds(2)});
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) {
    order.push_back(b.Look());
    b.views[static_cast<std::size_t>(order.back())].used += milliseconds(2);
  }
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(order[i], order[i - 3]);
  std::sort(order.begin(), order.begin() + 3);
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 3), (std::vector{0, 1, 2}));
}

TEST(RoundRobin, OneFrameIsQueuedWhileAnotherProgramWaitsForABlank) {
  TurnBench b({milliseconds(6), milliseconds(6)});
  b.Look();
  b.views[0].waiting = 0;
  b.views[0].blocks = true;
  for (VgpuView& view : b.views) view.frame_gpu = milliseconds(6);
  ASSERT_EQ(b.Look(), 1);
  b.views[1].reserved = milliseconds(6);
  b.views[1].used += milliseconds(6);
  EXPECT_EQ(b.Look(), -1) << "the device has work for 6 ms";
  b.now += microseconds(4500);
  EXPECT_EQ(b.Look(), 1) << "for 1 ms at most";
  b.views[1].reserved = milliseconds(6);
  b.views[1].used += milliseconds(6);
  b.views[0].attached = false;
  EXPECT_EQ(b.Look(), 1) << "no other program comes seldom";
}

TEST(RoundRobin, AnEmptyQueueIsSkipped) {
  TurnBench b({milliseconds(2), milliseconds(2), milliseconds(2)});
  b.views[1].waiting = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(b.Look(), 1);
    b.RunOneFrame();
  }
  EXPECT_EQ(b.views[1].used, Duration{0});
  EXPECT_GT(std::min(b.views[0].used, b.views[2].used), milliseconds(8));
}

TEST(RoundRobin, TheTurnPassesDuringTheLastFrameToOneThatOwesLessThanATurn) {
  TurnBench b({milliseconds(2), milliseconds(2)});
  const auto first = static_cast<std::size_t>(b.Look());
  b.views[first].used += milliseconds(9);  // it overran its turn
  b.views[first].in_flight = 1;
  b.views[first].waiting = 0;
  EXPECT_EQ(b.Look(), static_cast<int>(1 - first));
  b.views[1 - first].used += milliseconds(9);
  b.views[1 - first].in_flight = 1;
  b.views[1 - first].waiting = 0;
  EXPECT_EQ(b.Look(), -1) << "both owe several turns, and both are on the device";
  b.views[first].in_flight = 0;
  b.views[first].waiting = 1;
  EXPECT_EQ(b.Look(), -1) << "the first owes more than one turn, and waits for the end of the other's frame";
}

TEST(RoundRobin, OneThatComesSeldomGoesFirstWhileTheHolderWaitsForRoomInTheQueue) {
  TurnBench b({milliseconds(6), milliseconds(6)});
  VgpuView& seldom = b.views[0];
  VgpuView& greedy = b.views[1];
  seldom.blocks = true;
  seldom.waiting = 0;
  seldom.last_active = b.now;
  seldom.frame_gpu = greedy.frame_gpu = milliseconds(6);
  ASSERT_EQ(b.Look(), 1);
  greedy.used += milliseconds(6);  // its frame is on the device, and its next one waits
  greedy.reserved = milliseconds(6);
  ASSERT_EQ(b.Look(), -1) << "it has the turn again, but the queue has no room";
  seldom.waiting = 1;
  EXPECT_EQ(b.Look(), 0);
  seldom.used += milliseconds(6);
  seldom.reserved = milliseconds(6);
  seldom.waiting = 0;
  seldom.in_flight = 1;
  for (int i = 0; i < 18; ++i) EXPECT_EQ(b.Look(), -1) << "both frames are queued";
  seldom.in_flight = 0;
  int next = -1;
  for (int i = 0; i < 4 && next < 0; ++i) next = b.Look();
  EXPECT_EQ(next, 1);
}

TEST(RoundRobin, AVgpuBetweenTwoFramesSavesNoTurns) {
  TurnBench b({milliseconds(2), milliseconds(2), milliseconds(2)});
  b.Look();
  b.views[2].waiting = 0;  // it is expected
  b.views[2].frame_gpu = milliseconds(6);
  b.views[2].frame_think = b.views[2].least_think = milliseconds(4);
  for (int i = 0; i < 8; ++i) {
    const int holder = b.Look();
    ASSERT_GE(holder, 0);
    b.views[static_cast<std::size_t>(holder)].used += milliseconds(2);
  }
  b.views[2].waiting = 1;
  int holder = b.Look();
  for (int i = 0; i < 3 && holder != 2; ++i) {
    b.views[static_cast<std::size_t>(holder)].used += milliseconds(2);
    holder = b.Look();
  }
  ASSERT_EQ(holder, 2);
  EXPECT_LE(b.verdicts[2].allowance, milliseconds(4)) << "one turn that was kept, and this one";
}

TEST(RoundRobin, TurnsThatAVgpuMissesPayItsDebt) {
  TurnBench b({milliseconds(6), milliseconds(2)});
  while (b.Look() != 0) b.views[1].used += milliseconds(2);
  b.views[0].used += milliseconds(6);
  b.views[0].waiting = 0;  // it waits for a vertical blank
  b.views[0].blocks = true;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(b.Look(), 1);
    b.views[1].used += milliseconds(2);
  }
  b.views[0].waiting = 1;
  EXPECT_EQ(b.Look(), 0) << "the other one has used as much";
}

TEST(RoundRobin, ALongKernelKeepsTheTurnUntilItsEnd) {
  TurnBench b({milliseconds(500), milliseconds(2)});
  const auto first = static_cast<std::size_t>(b.Look());
  b.views[first].frame_gpu = milliseconds(500);
  b.views[first].used += milliseconds(9);
  b.views[first].in_flight = 1;
  b.views[first].waiting = 0;
  EXPECT_EQ(b.Look(), -1);
  b.views[first].in_flight = 0;
  EXPECT_EQ(b.Look(), static_cast<int>(1 - first));
}

TEST(RoundRobin, WhereDecisionsComeLateTheHolderMayRunUntilTheNext) {
  TurnBench b({milliseconds(2), milliseconds(2)});
  const auto first = static_cast<std::size_t>(b.Look());
  const Duration in_time = b.verdicts[first].allowance;
  b.policy->Decide({b.now, b.views, milliseconds(6)}, b.verdicts);
  EXPECT_EQ(b.verdicts[first].allowance, in_time + milliseconds(6));
  EXPECT_LE(b.verdicts[1 - first].allowance, Duration{0});
  b.views[first].used += milliseconds(8);
  b.policy->Decide({b.now, b.views, milliseconds(6)}, b.verdicts);
  EXPECT_LE(b.verdicts[first].allowance, Duration{0}) << "late decisions are no credit";
  EXPECT_GT(b.verdicts[1 - first].allowance, Duration{0});
}

TEST(RoundRobin, TheEndOfWorkFreesTheDeviceWhereTheProgramDoesNotReturnBeforeTheNextTick) {
  TurnBench b({milliseconds(2), milliseconds(2)});
  b.views[0].least_think = microseconds(400);
  b.views[1].least_think = microseconds(600);
  b.views[0].in_flight = b.views[1].in_flight = 1;
  b.Look();
  EXPECT_FALSE(b.verdicts[0].frees_device);
  EXPECT_TRUE(b.verdicts[1].frees_device);
  b.views[0].blocks = true;
  b.Look();
  EXPECT_TRUE(b.verdicts[0].frees_device);
}

/// One vGPU launches long kernels without a pause, the other one short kernels with pauses.
TEST(RoundRobin, ADebtIsNotPaidWhileTheOtherIsBetweenTwoFrames) {
  TurnBench b({milliseconds(2), milliseconds(500)});
  b.views[0].frame_gpu = milliseconds(2);
  b.views[0].frame_think = b.views[0].least_think = microseconds(600);
  b.views[1].frame_gpu = milliseconds(500);
  for (int i = 0; i < 3'000; ++i) {
    b.RunOneFrame();
    b.views[0].waiting = 0;  // it thinks for one tick after each of its frames
    b.RunOneFrame();
    b.views[0].waiting = 1;
  }
  const double all = SecondsOf(b.views[0].used + b.views[1].used);
  EXPECT_NEAR(SecondsOf(b.views[0].used) / all, 0.5, 0.05);
}

TEST(RoundRobin, NobodyIsExpectedForLongerThanItsThinkTime) {
  TurnBench b({milliseconds(2), milliseconds(500)});
  b.views[0].frame_gpu = milliseconds(2);
  b.views[0].frame_think = b.views[0].least_think = microseconds(600);
  b.Look();
  b.views[1].used += milliseconds(400);
  b.Look();
  b.views[0].waiting = 0;
  EXPECT_EQ(b.Look(), -1) << "it is in debt, and the other is expected";
  b.Look();
  b.Look();
  b.Look();
  EXPECT_EQ(b.Look(), 1) << "2.2 ms have passed";
}

TEST(RoundRobin, AnIdleTurnGoesToTheFirstArrival) {
  TurnBench b({milliseconds(2), milliseconds(2)});
  for (VgpuView& view : b.views) view.waiting = 0;
  b.Look();
  for (const Verdict& verdict : b.verdicts) EXPECT_GT(verdict.allowance, Duration{0});
  b.now += seconds(1);
  EXPECT_EQ(b.policy->Decide({b.now, b.views}, b.verdicts), kNever);
}

// With frames of any length, no vGPU gets more than a frame and a turn ahead of another.
RC_GTEST_PROP(RoundRobinLaw, ABusyVgpuGetsAnEqualPart, ()) {
  const auto lengths_us =
      *rc::gen::container<std::vector<int>>(*rc::gen::inRange<std::size_t>(2, 6), rc::gen::inRange(100, 40'000));
  std::vector<Duration> lengths;
  for (const int us : lengths_us) lengths.push_back(microseconds(us));
  TurnBench b(lengths);
  for (int i = 0; i < 2'000; ++i) b.RunOneFrame();
  Duration least = Duration::max(), most{}, longest{};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    least = std::min(least, b.views[i].used);
    most = std::max(most, b.views[i].used);
    longest = std::max(longest, lengths[i]);
  }
  RC_ASSERT(most - least <= longest + 2 * milliseconds(2));
}

}  // namespace
}  // namespace weir::core
