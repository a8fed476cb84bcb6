// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/replay.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::cli {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

/// Frames one after the other for ten seconds: `think`, then a present that takes `present` of which the device works
/// `gpu`.
proto::Trace Of(const std::string& vgpu, std::uint64_t think, std::uint64_t present, std::uint64_t gpu,
                std::uint64_t wait = 0) {
  proto::Trace trace;
  trace.header.device = "embedded";
  trace.header.device_kind = "software";
  trace.header.policy = "none";
  trace.header.vgpu = vgpu;
  trace.header.weight = 100;
  trace.header.cap_ppm = 1'000'000;
  trace.processes.push_back(
      {.pid = 1, .program = vgpu, .api = "gl", .renderer = "llvmpipe", .meter = "worker-cpu-time"});
  for (std::int64_t at = 1'000'000'000; at < 11'000'000'000; at = trace.frames.back().EndNs())
    trace.frames.push_back(
        {.begin_ns = at, .think_ns = think, .held_ns = wait, .present_ns = present, .gpu_ns = gpu, .wait_ns = wait});
  return trace;
}

Replay Made(std::vector<proto::Trace> traces) {
  auto replay = Replay::Make(std::move(traces));
  EXPECT_TRUE(replay) << (replay ? "" : replay.error().message);
  return *std::move(replay);
}

TEST(Replay, CountsWhatWasRecorded) {
  const Replay replay = Made({Of("a", 4 * kMs, 6 * kMs, 5 * kMs), Of("b", 15 * kMs, 5 * kMs, 5 * kMs)});
  EXPECT_NEAR(replay.recorded()[0].fps, 100, 1);
  EXPECT_NEAR(replay.recorded()[1].fps, 50, 1);
  EXPECT_NEAR(replay.recorded()[0].share, 2.0 / 3, 0.01);
}

TEST(Replay, UnderTheSamePolicyTheModelShowsTheRecordOnceItIsFitted) {
  Replay replay = Made({Of("a", 4 * kMs, 6 * kMs, 4 * kMs), Of("b", 15 * kMs, 5 * kMs, 3 * kMs)});
  replay.Calibrate();
  const auto real = replay.SecondHalf(), model = replay.PlaySecondHalf();
  for (std::size_t i = 0; i < real.size(); ++i) {
    EXPECT_NEAR(model[i].fps / real[i].fps, 1, 0.02) << real[i].vgpu;
    EXPECT_NEAR(model[i].share, real[i].share, 0.01) << real[i].vgpu;
  }
}

TEST(Replay, AnswersWhatAnotherPolicyWouldHaveDone) {
  auto a = Of("a", kMs, 6 * kMs, 5 * kMs), b = Of("b", kMs, 12 * kMs, 5 * kMs);
  a.header.fps_milli = 30'000;
  Replay replay = Made({a, b});
  replay.Calibrate();
  const auto paced = replay.Play("sla-aware", {{"fps", 0.0}, {"sync", 0.0}});
  EXPECT_NEAR(paced[0].fps, 30, 0.5);
  EXPECT_GE(paced[1].fps, replay.recorded()[1].fps * 0.99) << "what the other gives up can only help";
}

TEST(Replay, WindowsOfOneVgpuAreLoopsOfOneTenant) {
  auto two = Of("a", 4 * kMs, 6 * kMs, 4 * kMs);
  const std::size_t count = two.frames.size();
  for (std::size_t i = 0; i < count; ++i) {
    two.frames.push_back(two.frames[i]);
    two.frames.back().surface = 1;
  }
  const Replay replay = Made({two});
  const sim::Tenant tenant = replay.ProgramsFrom(0, 0);
  EXPECT_EQ(tenant.processes, 2);
  ASSERT_EQ(tenant.recorded.size(), 2u);
  EXPECT_EQ(tenant.recorded[0].size(), count);
  EXPECT_EQ(tenant.recorded[1].size(), count);
}

TEST(Replay, AProgramMayBeginInTheMiddleOfItsRecord) {
  auto trace = Of("a", 4 * kMs, 6 * kMs, 4 * kMs);
  trace.frames.front().gpu_ns = kMs;
  const Replay replay = Made({trace});
  const auto whole = replay.ProgramsFrom(0, 0).recorded.at(0), later = replay.ProgramsFrom(0, 0.25).recorded.at(0);
  ASSERT_EQ(later.size(), whole.size());
  EXPECT_EQ(whole.front().gpu, milliseconds(1));
  EXPECT_EQ(later[whole.size() - whole.size() / 4].gpu, milliseconds(1)) << "then from its beginning on";
}

TEST(Replay, WhatDoesNotBelongTogetherIsRefused) {
  EXPECT_EQ(Replay::Make({}).error().code, Errc::kInvalidArgument);
  auto elsewhere = Of("b", kMs, kMs, kMs);
  elsewhere.header.device = "gpu1";
  EXPECT_NE(Replay::Make({Of("a", kMs, kMs, kMs), elsewhere}).error().message.find("not at the same time"),
            std::string::npos);
  auto later = Of("b", kMs, kMs, kMs);
  for (proto::TraceFrame& frame : later.frames) frame.begin_ns += 20'000'000'000;
  EXPECT_NE(Replay::Make({Of("a", kMs, kMs, kMs), later}).error().message.find("in common"), std::string::npos);
  auto empty = Of("a", kMs, kMs, kMs);
  empty.frames.resize(3);
  EXPECT_EQ(Replay::Make({empty}).error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace weir::cli
