// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/simulation.h"

namespace weir::cli {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

/// Consecutive frames for ten seconds: `think`, then a present that takes `present`, in which the device works for
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

TEST(Replay, AFrameThatAnEndOfTheTimeCutsCountsByItsPart) {
  // 24 frames of 400 ms. The common time begins in the middle of the first and ends in the middle of the last of them,
  // so that 23 frames in 9.2 s count.
  auto slow = Of("slow", 300 * kMs, 100 * kMs, 80 * kMs);
  slow.frames.resize(24);
  auto between = Of("between", 9 * kMs, kMs, kMs);
  for (proto::TraceFrame& frame : between.frames) frame.begin_ns += 200'000'000;
  between.frames.resize(920);
  const Replay replay = Made({slow, between});
  EXPECT_NEAR(replay.recorded()[0].fps, 2.5, 1e-6);
  EXPECT_NEAR(replay.recorded()[0].use, 0.2, 1e-6);
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

// -- A card that was played, recorded and replayed --------------------------------------------------------------------

constexpr core::DeviceConfig kCard{
    .arbitration = core::Arbitration::kTimeSlice, .slice = milliseconds(2), .switch_cost = microseconds(20)};

/// Eight programs on an emulated card, with different weights and frames. The promised rates need four fifths of it.
sim::Scenario EightOnACard(sim::Meter meter) {
  constexpr std::array kFrameMs{8, 4, 12, 6, 20, 5, 16, 10};
  constexpr std::array kWeight{30U, 20U, 15U, 10U, 10U, 5U, 5U, 5U};
  constexpr std::array kFps{15.0, 20.0, 10.0, 10.0, 5.0, 12.0, 4.0, 6.0};
  sim::Scenario scenario;
  scenario.span = seconds(66);
  scenario.devices.front().model = kCard;
  scenario.devices.front().account = milliseconds(100);
  for (std::size_t i = 0; i < kFrameMs.size(); ++i) {
    sim::Tenant& tenant = scenario.tenants.emplace_back();
    tenant.name = "v" + std::to_string(i);
    tenant.settings.weight = kWeight[i];
    tenant.settings.fps = kFps[i];
    tenant.scenes = {{.cpu = microseconds(300), .gpu = milliseconds(kFrameMs[i]), .jitter = 0.05}};
    tenant.present = microseconds(30);
    tenant.frames_ahead = 2;
    tenant.meter = meter;
  }
  return scenario;
}

/// What `weir record` would have written of a tenant.
proto::Trace TraceOf(const sim::Tenant& tenant, const sim::TenantRecord& record, const std::string& policy) {
  constexpr std::int64_t kBegin = 1'000'000'000;
  proto::Trace trace;
  trace.header.device = "emulated0";
  trace.header.device_kind = "emulated";
  trace.header.policy = policy;
  const core::PolicyParams params = *core::CheckParams(**core::FindPolicy(policy), {});
  for (const auto& [name, value] : params) trace.header.policy_params.emplace_back(name, value);
  trace.header.vgpu = tenant.name;
  trace.header.weight = tenant.settings.weight;
  trace.header.cap_ppm = 1'000'000;
  trace.header.fps_milli = static_cast<std::uint64_t>(tenant.settings.fps * 1e3);
  trace.processes.push_back({.pid = 1,
                             .program = "p",
                             .api = "gl",
                             .renderer = "r",
                             .meter = tenant.meter == sim::Meter::kSpan ? "timer-query" : "wall-clock"});
  const auto ns = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  for (const sim::FrameRecord& frame : record.frames) {
    const std::int64_t held = frame.pace_ns + frame.wait_ns;
    trace.frames.push_back({.begin_ns = kBegin + frame.end_ns - frame.latency_ns,
                            .think_ns = ns(std::max<std::int64_t>(frame.latency_ns - held - frame.took_ns, 0)),
                            .held_ns = ns(held),
                            .present_ns = ns(frame.took_ns),
                            .gpu_ns = ns(frame.took_ns),  // as a meter that also counts other programs' work
                            .pace_ns = ns(frame.pace_ns),
                            .wait_ns = ns(frame.wait_ns)});
  }
  std::uint64_t charged = 0;
  for (std::size_t second = 0; second < record.gpu_ns_by_s.size(); ++second) {
    trace.charges.push_back({kBegin + static_cast<std::int64_t>(second) * 1'000'000'000, charged});
    charged += ns(record.gpu_ns_by_s[second]);
  }
  return trace;
}

std::vector<proto::Trace> TracesOf(sim::Meter meter, const std::string& policy) {
  const sim::Scenario scenario = EightOnACard(meter);
  const sim::Run run{.label = policy, .policy = policy, .params = *core::CheckParams(**core::FindPolicy(policy), {})};
  sim::Simulation simulation(scenario, run, {});
  simulation.RunUntil(scenario.span);
  const sim::RunRecord record = simulation.Take();
  std::vector<proto::Trace> traces;
  for (std::size_t i = 0; i < record.tenants.size(); ++i)
    traces.push_back(TraceOf(scenario.tenants[i], record.tenants[i], policy));
  return traces;
}

struct Off {
  double rate = 0, share = 0;
};

/// The largest errors of the model for the second half of a recorded run.
Off WorstOf(sim::Meter meter, const std::string& policy, const core::DeviceConfig& device) {
  Replay replay = Made(TracesOf(meter, policy));
  replay.PlayOn(device);
  replay.Calibrate();
  const auto real = replay.SecondHalf(), model = replay.PlaySecondHalf();
  Off worst;
  for (std::size_t i = 0; i < real.size(); ++i) {
    worst.rate = std::max(worst.rate, std::abs(model[i].fps / real[i].fps - 1));
    worst.share = std::max(worst.share, std::abs(model[i].share - real[i].share));
  }
  return worst;
}

TEST(Replay, OfACardShowsItsRatesAndShares) {
  for (const std::string policy : {"none", "sla-aware"}) {
    for (const sim::Meter meter : {sim::Meter::kCall, sim::Meter::kSpan}) {
      const Off off = WorstOf(meter, policy, kCard);
      EXPECT_LT(off.rate, 0.005) << policy << ' ' << static_cast<int>(meter);
      EXPECT_LT(off.share, 0.001) << policy << ' ' << static_cast<int>(meter);
    }
  }
}

// Without the meter the share would be off by 0.02, without the account by 0.06.
TEST(Replay, ChargesWhatTheMetersSaidAndCorrectsItAsTheAccountDid) {
  const Off off = WorstOf(sim::Meter::kCall, "reserve", kCard);
  EXPECT_LT(off.rate, 0.05);
  EXPECT_LT(off.share, 0.01);
}

TEST(Replay, OnADeviceThatTakesNoTurnsARecordOfTurnsIsNotShown) {
  EXPECT_GT(WorstOf(sim::Meter::kCall, "none", {}).rate, 0.1);
}

TEST(Replay, ARateThatTheDeviceBoundsLeavesTheFactorAlone) {
  Replay replay = Made(TracesOf(sim::Meter::kCall, "none"));
  replay.PlayOn(kCard);
  replay.Calibrate();
  for (const double factor : replay.factors()) EXPECT_EQ(factor, 1);
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
