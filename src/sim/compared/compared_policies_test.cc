// SPDX-License-Identifier: Apache-2.0
#include "sim/compared/compared_policies.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace weir::sim {
namespace {

using core::Admission;
using core::PolicyEntry;
using core::Verdict;
using core::VgpuView;

/// A device that runs one frame after the other, in the order in which they pass, without any delay of its own.
struct OneDevice {
  OneDevice(std::string_view name, const std::vector<Duration>& frame_lengths,
            const std::vector<std::uint32_t>& weights)
      : policy(Make(name)), frames(frame_lengths), verdicts(frame_lengths.size()) {
    for (std::size_t i = 0; i < frames.size(); ++i)
      views.push_back({.id = VgpuId{i + 1},
                       .slot = static_cast<std::uint32_t>(i),
                       .weight = weights[i],
                       .waiting = 1,
                       .frame_gpu = frames[i],
                       .attached = true});
  }
  static std::unique_ptr<core::Policy> Make(std::string_view name) {
    const PolicyEntry* entry = FindCompared(name);
    return entry->make(*core::CheckParams(*entry, {}));
  }

  /// Every vGPU always has one frame, that waits or is in flight.
  void RunFor(Duration span) {
    for (const Instant end = now + span; now < end;) {
      for (VgpuView& view : views) view.last_active = now;
      const Instant next = policy->Decide({now, views}, verdicts);
      ASSERT_GT(next, now);
      for (std::size_t i = 0; i < views.size(); ++i) Pass(i);
      const Instant until = order.empty() ? next : std::min(next, ends);
      ASSERT_LT(until, core::kNever);
      idle += order.empty() ? until - now : Duration{0};
      now = until;
      if (!order.empty() && now == ends) End();
    }
  }
  void Pass(std::size_t i) {
    VgpuView& view = views[i];
    if (view.waiting == 0 || !view.attached ||
        (verdicts[i].admission == Admission::kGated && verdicts[i].allowance <= Duration{0}))
      return;
    view.waiting = 0, view.in_flight = 1;
    view.used += frames[i];
    if (order.empty()) ends = now + frames[i];
    order.push_back(i);
  }
  void End() {
    views[order.front()].in_flight = 0, views[order.front()].waiting = 1;
    order.erase(order.begin());
    if (!order.empty()) ends = now + frames[order.front()];
  }
  [[nodiscard]] double ShareOf(std::size_t i) const {
    Duration all{};
    for (const VgpuView& view : views) all += view.used;
    return SecondsOf(views[i].used) / SecondsOf(all);
  }

  std::unique_ptr<core::Policy> policy;
  std::vector<Duration> frames;
  std::vector<VgpuView> views;
  std::vector<Verdict> verdicts;
  std::vector<std::size_t> order;  // vGPUs with a frame on the device
  Instant now = InstantFromNs(1'000'000'000);
  Instant ends{};
  Duration idle{};
};

class Compared : public ::testing::TestWithParam<const char*> {};

TEST_P(Compared, AVgpuAloneKeepsTheDeviceBusy) {
  OneDevice device(GetParam(), {milliseconds(3)}, {50});
  device.RunFor(seconds(10));
  EXPECT_LT(device.idle, seconds(2)) << "one decision between two frames, 0.5 ms at most, and Gdev's yield";
  EXPECT_GT(device.views[0].used, seconds(8));
}

TEST_P(Compared, EqualVgpusThatAlwaysWantTheDeviceGetEqualShares) {
  OneDevice device(GetParam(), {milliseconds(3), milliseconds(3)}, {50, 50});
  device.RunFor(seconds(20));
  EXPECT_NEAR(device.ShareOf(0), 0.5, 0.02);
}

TEST_P(Compared, AVgpuThatLeavesDelaysNoOther) {
  OneDevice device(GetParam(), {milliseconds(3), milliseconds(3)}, {50, 50});
  device.RunFor(seconds(1));
  device.views[1].attached = false;
  const Duration before = device.views[0].used;
  device.RunFor(seconds(5));
  EXPECT_GT(device.views[0].used - before, seconds(4));
}

// The policies of Weir keep this law too; a published scheduler that stalled would be no comparison.
RC_GTEST_PROP(ComparedPolicies, NeverStallADeviceThatIsWanted, ()) {
  const auto entries = ComparedPolicies();
  const PolicyEntry& entry = entries[*rc::gen::inRange<std::size_t>(0, entries.size())];
  const auto ms = *rc::gen::container<std::vector<int>>(*rc::gen::inRange(1, 6), rc::gen::inRange(1, 40));
  std::vector<Duration> frames;
  std::vector<std::uint32_t> weights;
  for (const int length : ms) {
    frames.push_back(milliseconds(length));
    weights.push_back(*rc::gen::inRange<std::uint32_t>(1, 100));
  }
  OneDevice device(entry.name, frames, weights);
  device.RunFor(seconds(5));
  RC_ASSERT(device.idle < seconds(2));
}

INSTANTIATE_TEST_SUITE_P(All, Compared, ::testing::Values("sfq", "bvt", "disengaged", "gdev-band", "xsched-up"),
                         [](const auto& name) {
                           std::string word = name.param;
                           std::ranges::replace(word, '-', '_');
                           return word;
                         });

TEST(ComparedPolicies, AreNotPoliciesOfADaemon) {
  for (const PolicyEntry& entry : ComparedPolicies()) {
    EXPECT_FALSE(core::FindPolicy(entry.name)) << entry.name;
    EXPECT_TRUE(FindScenarioPolicy(entry.name));
  }
  EXPECT_TRUE(FindScenarioPolicy("round-robin"));
  const auto unknown = FindScenarioPolicy("fastest");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("sfq"), std::string::npos);
}

TEST(StartTimeFair, SharesByWeight) {
  OneDevice device("sfq", {milliseconds(3), milliseconds(7)}, {75, 25});
  device.RunFor(seconds(20));
  EXPECT_NEAR(device.ShareOf(0), 0.75, 0.02);
}

TEST(BorrowedVirtualTime, SharesByWeight) {
  OneDevice device("bvt", {milliseconds(3), milliseconds(7)}, {75, 25});
  device.RunFor(seconds(20));
  EXPECT_NEAR(device.ShareOf(0), 0.75, 0.02);
}

// A slice ends by the clock, and work that has begun runs to its end.
TEST(UtilizationSlices, LongKernelsGetMoreThanTheirSlice) {
  OneDevice device("xsched-up", {milliseconds(2), milliseconds(100)}, {50, 50});
  device.RunFor(seconds(20));
  EXPECT_GT(device.ShareOf(1), 0.9);
}

}  // namespace
}  // namespace weir::sim
