// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sim/checkers.h"
#include "sim/metrics.h"
#include "sim/simulation.h"

namespace weir::sim {
namespace {

using core::OversellMode;

/// Two tenants that were sold half of a device each and always want it.
struct HalfEach {
  Scenario scenario;
  sim::Run run;
  RunRecord record;

  explicit HalfEach(OversellMode mode = OversellMode::kAdaptive) {
    scenario.span = seconds(20);
    run.policy = "cap";
    run.oversell = mode;
    record.span_ns = 20'000'000'000;
    record.selling = {{0, 0, mode, 2.0}};
    for (const char* name : {"a", "b"}) {
      Tenant tenant;
      tenant.name = name;
      tenant.scenes = {{.gpu = milliseconds(4)}};
      tenant.present = microseconds(50);
      scenario.tenants.push_back(tenant);
      TenantRecord& one = record.tenants.emplace_back();
      one.name = name;
      one.terms = {{0, core::Sale::kGuaranteed, 0.5, 0}};
      one.gpu_ns_by_s.assign(20, 500'000'000);
      one.wanting_ns_by_s.assign(20, 1'000'000'000);
      one.frames_by_s.assign(20, 125);
    }
  }
  [[nodiscard]] std::string Says() const {
    const std::vector<std::string> all = CheckSelling(scenario, run, record);
    return all.empty() ? "" : all.front();
  }
};

TEST(SellingChecker, WhoWasSoldItsCeilingFirmlyHasIt) {
  HalfEach one;
  EXPECT_EQ(one.Says(), "");
  for (std::int64_t& ns : one.record.tenants[1].gpu_ns_by_s) ns = 440'000'000;
  EXPECT_NE(one.Says().find("'b' was sold 0.500 of the device firmly"), std::string::npos) << one.Says();
  one.record.tenants[1].terms[0].sale = core::Sale::kOversold;
  EXPECT_EQ(one.Says(), "");
}

TEST(SellingChecker, AFrameThatFitsIsShown) {
  HalfEach one;
  one.record.tenants[1].terms[0].fps = 30;
  one.record.tenants[1].frames_by_s.assign(20, 28);
  EXPECT_NE(one.Says().find("30 frames/s, and showed"), std::string::npos) << one.Says();
  one.scenario.tenants[1].scenes[0].cpu = milliseconds(25);  // too slow for 30 frames/s even alone
  EXPECT_EQ(one.Says(), "");
}

TEST(SellingChecker, WhatSomebodyWantsIsNotLeftIdle) {
  HalfEach one;
  one.record.tenants[1].wanting_ns_by_s.assign(20, 0);
  one.record.tenants[1].gpu_ns_by_s.assign(20, 0);
  EXPECT_EQ(one.Says(), "");
  one.record.tenants[0].terms[0].ceiling = 1;
  one.record.tenants[0].terms[0].sale = core::Sale::kBestEffort;
  EXPECT_NE(one.Says().find("always wants it"), std::string::npos) << one.Says();
}

TEST(SellingChecker, NothingIsSoldTwiceUnderStrictAndNobodyIsRefusedWhatFits) {
  HalfEach one(OversellMode::kStrict);
  one.record.refused = {{.at_ns = 1, .device = 0, .tenant = "c", .ceiling = 0.1}};
  EXPECT_EQ(one.Says(), "");
  one.record.tenants[1].terms[0].ceiling = 0.6;
  EXPECT_NE(one.Says().find("1.100 of device 0 is sold, and strict allows 1"), std::string::npos) << one.Says();
  one.record.tenants[1].terms[0].ceiling = 0.3;
  EXPECT_NE(one.Says().find("0.100 is refused to 'c', and 0.800 of 1 is sold"), std::string::npos) << one.Says();
  one.record.refused.clear();
  one.record.tenants[1].gpu_ns_by_s.assign(20, 300'000'000);
  EXPECT_EQ(one.Says(), "");
}

TEST(Customers, GoWithTheirVgpuAndMakePlaceForTheNext) {
  Scenario scenario;
  scenario.name = "customers";
  scenario.span = seconds(20);
  for (const char* name : {"first", "second", "third"}) {
    Tenant& tenant = scenario.tenants.emplace_back();
    tenant.name = name;
    tenant.settings.cap = Share::FromFraction(0.8);
    tenant.scenes = {{.gpu = milliseconds(4)}};
    tenant.customer = true;
  }
  scenario.tenants[0].end = milliseconds(6'500);
  scenario.tenants[1].start = seconds(2);
  scenario.tenants[1].end = seconds(4);  // it leaves before a vGPU can be sold to it
  const sim::Run run{.label = "strict", .policy = "cap", .oversell = OversellMode::kStrict};
  Simulation simulation(scenario, run, {});
  simulation.RunUntil(scenario.span);
  const RunRecord record = simulation.Take();
  EXPECT_EQ(record.tenants[0].left_ns, 6'500'000'000);
  EXPECT_EQ(record.tenants[1].sold_ns, -1);
  EXPECT_EQ(record.tenants[2].sold_ns, 7'000'000'000);
  EXPECT_EQ(*Measure(std::span(&record, 1), {.metric = "sold", .run = "strict"}), 1);
  EXPECT_NEAR(*Measure(std::span(&record, 1), {.metric = "revenue", .run = "strict"}), 0.8 * 19.5 / 20, 0.001);
  EXPECT_EQ(CheckRun(scenario, run, record), std::vector<std::string>{});
}

}  // namespace
}  // namespace weir::sim
