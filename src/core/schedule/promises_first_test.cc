// SPDX-License-Identifier: Apache-2.0
// Single decisions of `cap`; whole runs are in src/engine/caps_test.cc.
#include "core/schedule/promises_first.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

struct CapBench {
  std::unique_ptr<Policy> policy;
  std::vector<VgpuView> views;
  std::vector<Verdict> verdicts;
  Instant now = InstantFromNs(5'000'000'000);  // start of a period

  explicit CapBench(const PolicyParams& params = {}) : policy(*MakePolicy("cap", params)) {}
  void Decide(Duration after = {}) {
    now += after;
    verdicts.resize(views.size());
    policy->Decide({now, views}, verdicts);
  }
  void Charge(std::size_t i, Duration amount) {
    views[i].used += amount;
    views[i].last_active = now;
  }
};

/// A program with a promise of 30 frames/s that has missed some frames, and one with long kernels.
CapBench OwedBesideKernels(const PolicyParams& params = {}) {
  CapBench b(params);
  const Share half = Share::FromFraction(0.5);
  b.views = {{.id = VgpuId{1}, .slot = 0, .cap = half, .frame_gpu = milliseconds(15), .promised = milliseconds(33)},
             {.id = VgpuId{2}, .slot = 1, .cap = half, .frame_gpu = milliseconds(10)}};
  for (VgpuView& view : b.views) view.attached = true;
  b.views[0].last_active = b.now;
  b.Decide();
  b.Charge(0, milliseconds(15));
  b.Decide();
  b.Decide(milliseconds(65));
  return b;
}

TEST(PromisesFirst, OtherVgpusWaitWhileAFrameIsOwed) {
  CapBench b = OwedBesideKernels();
  b.views[0].waiting = b.views[1].waiting = 1;
  b.Decide();
  EXPECT_GT(b.verdicts[0].allowance, Duration{0});
  EXPECT_LE(b.verdicts[1].allowance, Duration{0}) << "a kernel would be drawn in turns with it";
}

TEST(PromisesFirst, OtherVgpusResumeWhenTheDeviceIsNearlyIdle) {
  CapBench b = OwedBesideKernels();
  b.views[0].waiting = 1;
  b.Decide();
  b.views[0].waiting = 0, b.views[0].in_flight = 1, b.views[1].waiting = 1;
  b.Charge(0, milliseconds(15));
  b.Decide();
  EXPECT_LE(b.verdicts[1].allowance, Duration{0});
  b.Decide(milliseconds(14));
  EXPECT_GT(b.verdicts[1].allowance, Duration{0}) << "the device would have nothing to do until the next look";
}

TEST(PromisesFirst, AnEndlessFrameDoesNotBlockOthers) {
  CapBench b = OwedBesideKernels();
  b.views[0].in_flight = 1, b.views[1].waiting = 1;
  b.Charge(0, milliseconds(15));
  b.Decide();
  for (int i = 0; i < 40; ++i) b.Decide(milliseconds(1));
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
}

TEST(PromisesFirst, OverpromisedDevicesBlockOthersOnlyBriefly) {
  CapBench b;  // two with a promise of the whole device each, and one without a promise
  for (std::uint64_t id = 1; id <= 3; ++id)
    b.views.push_back({.id = VgpuId{id},
                       .slot = static_cast<std::uint32_t>(id - 1),
                       .last_active = b.now,
                       .frame_gpu = milliseconds(20),
                       .promised = id < 3 ? milliseconds(20) : Duration{0},
                       .attached = true});
  int let_in = 0;
  Instant free_at = b.now;
  b.Decide();
  for (int ms = 0; ms < 2000; ++ms) {
    const bool done = b.now >= free_at;  // the work on the device
    for (std::size_t i = 0; i < 3; ++i) {
      VgpuView& view = b.views[i];
      if (done) view.in_flight = 0;
      view.waiting = view.in_flight == 0 ? 1 : 0;
      if (b.now < free_at || view.waiting == 0 || b.verdicts[i].allowance <= Duration{0}) continue;
      view.waiting = 0, view.in_flight = 1;
      b.Charge(i, view.frame_gpu);
      free_at = b.now + view.frame_gpu;
      let_in += i == 2 ? 1 : 0;
    }
    b.Decide(milliseconds(1));
  }
  EXPECT_GE(let_in, 7);
}

/// A small frame is being drawn; its program has had less GPU time than the waiting one with long kernels.
CapBench SmallFrameBesideKernels(const PolicyParams& params = {}) {
  CapBench b(params);
  const Share half = Share::FromFraction(0.5);
  b.views = {{.id = VgpuId{1}, .slot = 0, .cap = half, .frame_gpu = microseconds(600)},
             {.id = VgpuId{2}, .slot = 1, .cap = half, .frame_gpu = milliseconds(10)}};
  for (VgpuView& view : b.views) view.attached = true, view.last_active = b.now;
  b.Decide();
  b.Charge(1, milliseconds(10));
  b.Charge(0, microseconds(600));
  b.views[0].in_flight = b.views[1].waiting = 1;
  return b;
}

TEST(PromisesFirst, AVgpuBehindWithSmallFramesDoesNotIdleTheDevice) {
  CapBench b = SmallFrameBesideKernels();
  b.Decide();
  EXPECT_LE(b.verdicts[1].allowance, Duration{0}) << "the device has the kernel that was charged";
  b.Decide(milliseconds(10));
  EXPECT_GT(b.verdicts[1].allowance, Duration{0}) << "its slice has time left, and the device soon nothing to do";
  EXPECT_LT(b.verdicts[1].allowance, milliseconds(1)) << "one kernel, and no more";
  CapBench by_caps = SmallFrameBesideKernels({{"ahead_ms", 0}});
  by_caps.Decide(milliseconds(10));
  EXPECT_LE(by_caps.verdicts[1].allowance, Duration{0});
}

// A vGPU with kernels of 2 ms is behind a vGPU with kernels of a second. The slice of the latter has time left again.
TEST(PromisesFirst, ALongKernelWaitsForItsTurnBesideSmallOnes) {
  CapBench b;
  b.views = {{.id = VgpuId{1}, .slot = 0, .frame_gpu = milliseconds(2)},
             {.id = VgpuId{2}, .slot = 1, .frame_gpu = seconds(1)}};
  for (VgpuView& view : b.views) view.attached = true, view.last_active = b.now;
  b.Decide();
  b.views[0].waiting = 1;
  b.Decide();
  b.Charge(1, seconds(1));
  b.Decide();
  b.Decide(seconds(1));
  b.views[1].waiting = 1;
  for (int kernels = 0; kernels < 400; ++kernels) {  // longer than a vGPU is kept out where promises go first
    b.views[0].waiting = 0, b.views[0].in_flight = 1;
    b.Charge(0, milliseconds(2));
    b.Decide(milliseconds(1));
    ASSERT_LE(b.verdicts[1].allowance, Duration{0}) << kernels;
    b.Decide(milliseconds(1));
    ASSERT_LE(b.verdicts[1].allowance, Duration{0}) << "the device has nothing more to do, " << kernels;
    b.views[0].waiting = 1, b.views[0].in_flight = 0;
    b.Decide();
    ASSERT_LE(b.verdicts[1].allowance, Duration{0}) << kernels;
  }
  b.views[0].waiting = 0, b.views[0].in_flight = 1;  // it presents, and submits nothing
  for (int ms = 0; ms < 6; ++ms) b.Decide(milliseconds(1));
  EXPECT_GT(b.verdicts[1].allowance, Duration{0}) << "the device has been idle";
}

// Decisions do not include a vGPU that rests. When it returns, it has the frame credit of that time, as if it had been
// active.
TEST(PromisesFirst, AVgpuThatRestedIsOwedTheFramesOfThatTime) {
  for (const bool rests : {false, true}) {
    CapBench b = OwedBesideKernels();
    b.Charge(0, milliseconds(45));  // it was owed two frames, and drew three
    b.Decide();
    const VgpuView resting = b.views[0];
    if (rests) b.views.erase(b.views.begin());
    for (int look = 0; look < 20; ++look) b.Decide(milliseconds(100));
    if (rests) b.views.insert(b.views.begin(), resting);
    b.views[0].waiting = b.views[1].waiting = 1;
    b.views[0].last_active = b.now;
    b.Decide(milliseconds(1));
    EXPECT_GT(b.verdicts[0].allowance, Duration{0}) << rests;
    EXPECT_LE(b.verdicts[1].allowance, Duration{0}) << rests << ": its frame goes first";
  }
}

TEST(PromisesFirst, AtZeroOnlyCapsDecide) {
  CapBench b = OwedBesideKernels({{"ahead_ms", 0}});
  b.views[0].waiting = b.views[1].waiting = 1;
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
}

/// A waiting vGPU that was sold half of the device, has a cap of a tenth now, and has used it up; the device has been
/// idle for `idle`.
CapBench UsedUp(Share ceiling, Duration frame_gpu, Duration idle, const PolicyParams& params = {}) {
  CapBench b(params);
  b.views = {{.id = VgpuId{1},
              .slot = 0,
              .cap = Share::FromFraction(0.1),
              .frame_gpu = frame_gpu,
              .attached = true,
              .ceiling = ceiling}};
  b.views[0].last_active = b.now;
  b.Decide();
  b.Charge(0, milliseconds(12));
  b.Decide();
  b.views[0].waiting = 1;
  b.Decide(milliseconds(12) + idle);
  return b;
}
constexpr Duration kShort = milliseconds(2), kLong = milliseconds(10), kDone = milliseconds(1);
const Share kHalf = Share::FromFraction(0.5);

TEST(Lending, AnIdleDeviceIsLentUpToTheCeiling) {
  CapBench b = UsedUp(kHalf, kShort, kDone);
  EXPECT_TRUE(b.verdicts[0].held) << "that its cap has nothing left is still to be seen";
  EXPECT_GT(b.verdicts[0].allowance, Duration{0});
  EXPECT_LT(b.verdicts[0].allowance, milliseconds(1)) << "one frame";
  EXPECT_LE(UsedUp(Share{}, kShort, kDone).verdicts[0].allowance, Duration{0}) << "caps don't move here";
  EXPECT_LE(UsedUp(kHalf, kShort, kDone, {{"lend_ms", 0}}).verdicts[0].allowance, Duration{0});
  b.Charge(0, milliseconds(50));
  b.Decide();
  b.Decide(milliseconds(55));
  EXPECT_LE(b.verdicts[0].allowance, Duration{0}) << "its ceiling's part of the stage has been used, too";
}

TEST(Lending, ALongKernelMayExceedTheCapOnlyOnALongIdleDevice) {
  EXPECT_LE(UsedUp(kHalf, kLong, kDone).verdicts[0].allowance, Duration{0}) << "another frame may come";
  EXPECT_GT(UsedUp(kHalf, kLong, milliseconds(5)).verdicts[0].allowance, Duration{0});
  EXPECT_LE(UsedUp(kHalf, kLong, milliseconds(5), {{"lend_ms", 0}}).verdicts[0].allowance, Duration{0});
}

TEST(Lending, LentTimeIsNotPaidBack) {
  CapBench b = UsedUp(kHalf, kShort, kDone);
  b.Charge(0, milliseconds(20));
  b.Decide();
  b.Decide(milliseconds(87));
  EXPECT_FALSE(b.verdicts[0].held) << "of the first stage it owes 2 ms, and has 10 of the second";
}

TEST(Lending, RemainingTimeHasPriorityOverBorrowing) {
  CapBench b = UsedUp(kHalf, kShort, Duration{0});
  b.views.push_back({.id = VgpuId{2},
                     .slot = 1,
                     .cap = kHalf,
                     .waiting = 1,
                     .last_active = b.now,
                     .frame_gpu = kShort,
                     .attached = true,
                     .ceiling = kHalf});
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
  EXPECT_LE(b.verdicts[0].allowance, Duration{0}) << "the device has enough to do with the other one";
}

TEST(PromisesFirst, AnOwedShareHasPriorityOverRemainingTime) {
  CapBench b;
  const Share third = Share::FromFraction(0.33);
  for (std::uint64_t id = 1; id <= 2; ++id)
    b.views.push_back({.id = VgpuId{id},
                       .slot = static_cast<std::uint32_t>(id - 1),
                       .cap = third,
                       .last_active = b.now,
                       .frame_gpu = milliseconds(10),
                       .attached = true});
  b.views[1].share_promised = true;
  b.Decide();
  b.Charge(1, milliseconds(20));  // by the order within caps the other vGPU is next
  b.Decide(milliseconds(5));
  b.Decide(milliseconds(75));
  for (VgpuView& view : b.views) view.waiting = 1;
  b.Decide();
  EXPECT_GT(b.verdicts[1].allowance, Duration{0});
  EXPECT_LE(b.verdicts[0].allowance, Duration{0});
}

/// One random decision: idle programs may arrive, frames may end, and an admitted vGPU is charged for a frame.
void Live(CapBench& b, std::size_t quiet) {
  for (std::size_t i = 0; i < b.views.size(); ++i) {
    VgpuView& view = b.views[i];
    if (view.in_flight > 0 && *rc::gen::inRange(0, 8) == 0) view.in_flight = 0;
    if (i != quiet && view.in_flight == 0 && *rc::gen::inRange(0, 3) > 0) view.waiting = 1;
    if (view.waiting == 0 || b.verdicts[i].allowance <= Duration{0}) continue;
    view.waiting = 0, view.in_flight = 1;
    b.Charge(i, view.frame_gpu);
  }
  b.Decide(milliseconds(1));
}

// Law: no vGPU uses more than its ceiling's part of the stages that have begun, except for the frame that overdraws it.
// Lent time is not charged to the cap. So if a lent frame overdrew the ceiling in an earlier stage, the cap's part of
// the stages since then is added, with a frame that overdraws it.
RC_GTEST_PROP(Lending, NoVgpuExceedsItsCeiling, ()) {
  CapBench b;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    const int cap = *rc::gen::inRange(0, 30);
    b.views.push_back({.id = VgpuId{static_cast<std::uint64_t>(i + 1)},
                       .slot = static_cast<std::uint32_t>(i),
                       .cap = Share::FromFraction(cap / 100.0),
                       .last_active = b.now,
                       .frame_gpu = microseconds(*rc::gen::inRange(200, 8'000)),
                       .promised = milliseconds(*rc::gen::element(0, 30)),
                       .attached = true,
                       .ceiling = Share::FromFraction(std::min(cap + *rc::gen::inRange(0, 40), 100) / 100.0),
                       .share_promised = *rc::gen::arbitrary<bool>()});
  }
  b.Decide();
  for (int look = 0; look < 250; ++look) Live(b, 99);
  for (const VgpuView& view : b.views) {
    const Duration cap = view.cap.Of(milliseconds(100)), ceiling = view.ceiling.Of(milliseconds(100));
    const Duration lent_before = ceiling > cap ? 2 * ceiling + cap + 2 * view.frame_gpu : Duration{0};
    RC_ASSERT(view.used <= std::max(3 * ceiling + view.frame_gpu, lent_before));
  }
}

// Law: a vGPU with promised frames, frame credit and time left waits at most for the work on the device, if no vGPU has
// been starved.
RC_GTEST_PROP(PromisesFirst, AnOwedFrameWaitsOnlyForWorkInFlight, ()) {
  constexpr std::size_t kNobody = 99;
  CapBench b;
  const int count = *rc::gen::inRange(2, 9);
  for (int i = 0; i < count; ++i)
    b.views.push_back({.id = VgpuId{static_cast<std::uint64_t>(i + 1)},
                       .slot = static_cast<std::uint32_t>(i),
                       .cap = Share::FromFraction(*rc::gen::inRange(5, 60) / 100.0),
                       .last_active = b.now,
                       .frame_gpu = microseconds(*rc::gen::inRange(200, 20'000)),
                       .attached = true});
  VgpuView& owed = b.views[0];
  owed.promised = milliseconds(30);
  owed.frame_gpu += milliseconds(3);
  b.Decide();
  for (int look = *rc::gen::inRange(0, 200); look > 0; --look) Live(b, kNobody);
  for (int look = 0; look < 90; ++look) Live(b, 0);
  std::vector<std::uint32_t> waiting;
  for (VgpuView& view : b.views) waiting.push_back(std::exchange(view.waiting, 0));
  b.Decide();
  for (std::size_t i = 0; i < b.views.size(); ++i) b.views[i].waiting = waiting[i];
  owed.waiting = 1, owed.in_flight = 0;
  b.Decide();
  if (b.verdicts[0].held) return;
  RC_ASSERT(b.verdicts[0].allowance > Duration{0});
  owed.waiting = 0, owed.in_flight = 1;
  for (Duration drawn{}; drawn < owed.frame_gpu - milliseconds(2); drawn += milliseconds(1)) {
    for (std::size_t i = 1; i < b.views.size(); ++i) RC_ASSERT(b.verdicts[i].allowance <= Duration{0});
    if (drawn == Duration{0}) b.Charge(0, owed.frame_gpu);
    b.Decide(milliseconds(1));
  }
}

}  // namespace
}  // namespace weir::core
