// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/selling_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/simulation.h"

namespace weir::cli {
namespace {

constexpr std::uint64_t kPlanMs = 1'000'000;

/// Ten seconds of frames that cost `gpu` of 10 ms, twice that in the second half; promised are 60 a second.
proto::Trace TraceOf(const std::string& vgpu, std::uint64_t gpu, std::int64_t from_ns = 1'000'000'000) {
  proto::Trace trace;
  trace.header.device = "embedded";
  trace.header.device_kind = "software";
  trace.header.policy = "none";
  trace.header.vgpu = vgpu;
  trace.header.weight = 100;
  trace.header.cap_ppm = 1'000'000;
  trace.header.fps_milli = 60'000;
  trace.processes.push_back({.pid = 1, .program = vgpu, .api = "gl", .renderer = "r", .meter = "m"});
  for (std::int64_t at = from_ns; at < from_ns + 10'000'000'000; at = trace.frames.back().EndNs()) {
    const std::uint64_t cost = at < from_ns + 5'000'000'000 ? gpu : 2 * gpu;
    trace.frames.push_back({.begin_ns = at, .think_ns = 10 * kPlanMs - cost, .present_ns = cost, .gpu_ns = cost});
  }
  return trace;
}

std::vector<FittedTrace> FittedOf(const std::vector<proto::Trace>& traces) {
  auto fitted = FitTraces(traces);
  EXPECT_TRUE(fitted) << (fitted ? "" : fitted.error().message);
  return *std::move(fitted);
}

SellingPlan PlanWith(int customers) {
  return {.customers = customers, .span = seconds(20), .params = *core::CheckOversellParams({})};
}

sim::Scenario ScenarioFrom(const std::vector<FittedTrace>& traces, const SellingPlan& plan) {
  auto scenario = ScenarioOf(traces, plan);
  EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().message);
  return *std::move(scenario);
}

TEST(Ratios, AreNumbersFromOneOnEachOnce) {
  EXPECT_EQ(*ParseRatios("1.5,2,3"), (std::vector<double>{1.5, 2, 3}));
  EXPECT_EQ(*ParseRatios("1"), std::vector<double>{1});
  for (const char* bad : {"", "0.9", "1.5,", "1.5;2", "101", "-2", "two", "nan"}) {
    const auto ratios = ParseRatios(bad);
    ASSERT_FALSE(ratios) << bad;
    EXPECT_NE(ratios.error().message.find("from 1 to 100"), std::string::npos) << ratios.error().message;
  }
  EXPECT_EQ(ParseRatios("2,3,2").error().message, "the ratio 2 is given twice");
}

TEST(SellingPlan, HasARunForEachWay) {
  const auto traces = FittedOf({TraceOf("a", 2 * kPlanMs)});
  SellingPlan plan = PlanWith(3);
  plan.ratios = {1.5, 4};
  const sim::Scenario scenario = ScenarioFrom(traces, plan);
  std::vector<std::string> labels;
  for (const sim::Run& run : scenario.runs) labels.push_back(run.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"strict", "static-1.5", "static-4", "adaptive"}));
  EXPECT_DOUBLE_EQ(scenario.runs[2].oversell_params.at("ratio"), 4);
}

TEST(SellingPlan, CustomersRunTheTracesInTurnEachFromAnotherPoint) {
  const auto traces = FittedOf({TraceOf("a", 2 * kPlanMs), TraceOf("b", kPlanMs)});
  const sim::Scenario scenario = ScenarioFrom(traces, PlanWith(6));
  ASSERT_EQ(scenario.tenants.size(), 6u);
  EXPECT_EQ(scenario.tenants[2].name, "a-3");
  EXPECT_EQ(scenario.tenants[3].name, "b-4");
  const auto until_heavy = [&](std::size_t i) {  // frames until the cost changes
    const auto& frames = scenario.tenants[i].recorded.at(0);
    std::size_t n = 0;
    while (n < frames.size() && frames[n].gpu == frames[0].gpu) ++n;
    return n;
  };
  EXPECT_NE(until_heavy(0), until_heavy(2));
  EXPECT_NE(until_heavy(2), until_heavy(4));
  for (const sim::Tenant& tenant : scenario.tenants) {
    EXPECT_TRUE(tenant.customer);
    EXPECT_DOUBLE_EQ(tenant.settings.cap.Fraction(), 0.5);
    EXPECT_DOUBLE_EQ(tenant.settings.fps, 60);
    EXPECT_EQ(tenant.recorded.at(0).size(), 1000u) << "all of its frames";
  }
}

TEST(SellingPlan, IsTheSameForTheSameSeed) {
  const auto traces = FittedOf({TraceOf("a", 2 * kPlanMs)});
  SellingPlan plan = PlanWith(1);
  const auto first_frames = [&] {
    std::vector<Duration> gpu;
    const sim::Scenario scenario = ScenarioFrom(traces, plan);
    for (const sim::Demand& frame : scenario.tenants[0].recorded.at(0)) gpu.push_back(frame.gpu);
    return gpu;
  };
  const auto once = first_frames();
  EXPECT_EQ(once, first_frames());
  plan.seed = 2;
  EXPECT_NE(once, first_frames());
}

TEST(SellingPlan, TracesThatWereRecordedTogetherAreFittedTogether) {
  const auto traces =
      FittedOf({TraceOf("a", 2 * kPlanMs), TraceOf("late", kPlanMs, 90'000'000'000), TraceOf("b", kPlanMs)});
  EXPECT_EQ(traces[0].replay, traces[2].replay);
  EXPECT_NE(traces[0].replay, traces[1].replay);
  EXPECT_EQ(traces[2].recorded.vgpu, "b");
  for (const FittedTrace& trace : traces) EXPECT_NEAR(trace.model.fps / trace.real.fps, 1, 0.05);
}

TEST(SellingPlan, WhatCannotBePlannedIsRefused) {
  auto unpromised = TraceOf("a", kPlanMs);
  unpromised.header.fps_milli = 0;
  const auto traces = FittedOf({unpromised});
  EXPECT_NE(ScenarioOf(traces, PlanWith(1)).error().message.find("give --fps"), std::string::npos);
  SellingPlan plan = PlanWith(1);
  plan.fps = 30;
  EXPECT_DOUBLE_EQ(ScenarioFrom(traces, plan).tenants[0].settings.fps, 30);
  auto elsewhere = TraceOf("b", kPlanMs);
  elsewhere.header.device = "gpu1";
  EXPECT_NE(FitTraces({TraceOf("a", kPlanMs), elsewhere}).error().message.find("traces of one device"),
            std::string::npos);
  auto empty = TraceOf("a", kPlanMs);
  empty.frames.clear();
  EXPECT_NE(FitTraces({empty}).error().message.find("record it for longer"), std::string::npos);
}

TEST(SellingPlan, NeedsWhatThePromiseCosts) {
  const auto traces = FittedOf({TraceOf("a", 2 * kPlanMs)});
  EXPECT_NEAR(NeedOf(traces[0], PlanWith(1)), 60 * 0.003, 0.002) << "3 ms a frame in the mean";
  SellingPlan plan = PlanWith(1);
  plan.fps = 0;
  EXPECT_DOUBLE_EQ(NeedOf(traces[0], plan), 0.5) << "the cap";
}

TEST(SellingPlan, SellsMoreOfWhatIsSeldomUsed) {
  const auto traces = FittedOf({TraceOf("a", kPlanMs / 2)});
  SellingPlan plan = PlanWith(5);
  plan.ratios = {1.5};
  const sim::Scenario scenario = ScenarioFrom(traces, plan);
  std::vector<sim::RunRecord> runs;
  for (const sim::Run& run : scenario.runs) {
    sim::Simulation simulation(scenario, run, {.keep_frames = false});
    simulation.RunUntil(scenario.span);
    runs.push_back(simulation.Take());
    EXPECT_EQ(runs.back().violations, std::vector<std::string>{});
  }
  const auto ways = WaysOf(scenario, runs);
  ASSERT_EQ(ways.size(), 3u);
  EXPECT_EQ(ways[0].sold, 2);
  EXPECT_EQ(ways[1].sold, 3);
  EXPECT_EQ(ways[2].sold, 5);
  EXPECT_DOUBLE_EQ(ways[2].sold_ratio, 2.5);
  EXPECT_EQ(&BestOf(ways), &ways[2]);
  EXPECT_LT(ways[2].broken, 0.01);
}

TEST(SellingPlan, NamesWhatEarnsMostAndWhy) {
  const std::vector<WayOfSelling> ways{{.mode = core::OversellMode::kStrict, .broken = 0, .net = 0.6},
                                       {.mode = core::OversellMode::kStatic, .ratio = 1.5, .broken = 0.05, .net = 0.6},
                                       {.mode = core::OversellMode::kAdaptive, .broken = 0.003, .net = 3.4}};
  EXPECT_EQ(VerdictText(ways),
            "adaptive (weir oversell on): net 3.40/h, 0.3 % broken; next comes strict: net 0.60/h, 0 % broken");
  EXPECT_EQ(&BestOf(std::span(ways).first(2)), &ways[0]) << "of what earns the same that which breaks less";
  EXPECT_EQ(NameOf(ways[1]), "static 1.5");
}

}  // namespace
}  // namespace weir::cli
