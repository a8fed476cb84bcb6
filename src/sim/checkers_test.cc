// SPDX-License-Identifier: Apache-2.0
#include "sim/checkers.h"

#include <gtest/gtest.h>

namespace weir::sim {
namespace {

/// Two programs on one device, and a record that they might have left.
struct Case {
  Scenario scenario;
  sim::Run run;
  RunRecord record;

  explicit Case(const std::string& policy) {
    scenario.span = seconds(20);
    run.policy = policy;
    record.span_ns = 20'000'000'000;
    for (const char* name : {"a", "b"}) {
      Tenant tenant;
      tenant.name = name;
      tenant.scenes = {{.gpu = milliseconds(4)}};
      tenant.batch = milliseconds(2);
      tenant.queue = 2;
      scenario.tenants.push_back(tenant);
      record.tenants.emplace_back().name = name;
    }
  }
  /// The tenant used this part of the device, and made `fps` frames, in every second.
  void Used(std::size_t tenant, double part, double fps = 10) {
    TenantRecord& one = record.tenants[tenant];
    one.gpu_ns_by_s.assign(20, static_cast<std::int64_t>(part * 1e9));
    one.wanting_ns_by_s.assign(20, 1'000'000'000);
    one.frames_by_s.assign(20, static_cast<std::uint32_t>(fps));
  }
  /// The names of the checkers that object.
  [[nodiscard]] std::vector<std::string> Objecting() const {
    std::vector<std::string> names;
    for (const std::string& objection : CheckRun(scenario, run, record)) {
      const std::string name = objection.substr(0, objection.find(':'));
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
  }
};
using Names = std::vector<std::string>;

TEST(Checkers, NobodyIsOverItsCap) {
  Case one("none");
  one.scenario.tenants[0].settings.cap = Share::FromFraction(0.3);
  one.Used(0, 0.31);
  one.Used(1, 0.6);
  EXPECT_EQ(one.Objecting(), Names{});
  one.record.tenants[0].gpu_ns_by_s[7] = 400'000'000;
  EXPECT_EQ(one.Objecting(), Names{"caps"});
  one.scenario.faults = {{.kind = FaultKind::kDaemonCrash, .at = milliseconds(6500), .until = milliseconds(7100)}};
  EXPECT_EQ(one.Objecting(), Names{});
}

TEST(Checkers, ACapHoldsAsSoonAsItIsSet) {
  Case one("none");
  one.Used(0, 0.5);
  one.Used(1, 0.4);
  sim::ScenarioChange change;
  change.at = milliseconds(4500);
  change.tenant = "a";
  change.settings.cap = Share::FromFraction(0.2);
  one.run.changes = {change};
  const std::vector<std::string> objections = CheckRun(one.scenario, one.run, one.record);
  ASSERT_EQ(objections.size(), 15u);  // from the fifth second to the end
  EXPECT_TRUE(objections.front().starts_with("caps: 5 ")) << objections.front();
}

TEST(Checkers, SharesOfThoseWhoAlwaysWantTheDeviceAreTheirWeights) {
  Case one("proportional-share");
  one.scenario.tenants[0].settings.weight = 300;
  one.Used(0, 0.75);
  one.Used(1, 0.25);
  EXPECT_EQ(one.Objecting(), Names{});
  one.Used(0, 0.65);
  one.Used(1, 0.35);
  EXPECT_EQ(one.Objecting(), Names{"shares"});
  one.record.tenants[1].wanting_ns_by_s[15] = 0;  // it does not always want the device, so that nothing is shared
  EXPECT_EQ(one.Objecting(), Names{});
}

TEST(Checkers, WhoWantsTheDeviceIsNotHeldDownByThoseWhoDoNot) {
  Case one("proportional-share");
  one.Used(0, 0.1);
  one.Used(1, 0.1);
  one.record.tenants[1].wanting_ns_by_s.clear();
  EXPECT_EQ(one.Objecting(), Names{"floor"});
}

TEST(Checkers, NoProgramWaitsBesideADeviceWithoutWork) {
  for (const auto& [policy, within] :
       {std::pair{"proportional-share", microseconds(12'200)}, {"round-robin", microseconds(11'200)}}) {
    Case one(policy);
    one.Used(0, 0.5);
    one.Used(1, 0.5);
    const Duration bound = within + one.scenario.tenants[0].present;
    one.record.longest_idle_ns_by_s = {std::vector<std::int64_t>(20, bound.count())};
    EXPECT_EQ(one.Objecting(), Names{});
    one.record.longest_idle_ns_by_s[0][7] = bound.count() + 1;
    EXPECT_EQ(one.Objecting(), Names{"idle"});
    one.scenario.tenants[1].settings.cap = Share::FromFraction(0.6);  // the cap may have held the program back
    EXPECT_EQ(one.Objecting(), Names{});
  }
}

TEST(Checkers, TurnsAreEqualWhateverTheWeights) {
  Case one("round-robin");
  one.scenario.tenants[0].settings.weight = 300;
  one.Used(0, 0.75);
  one.Used(1, 0.25);
  EXPECT_EQ(one.Objecting(), Names{"shares"});
}

TEST(Checkers, RatesAreThePromisedOnes) {
  Case one("sla-aware");
  one.Used(0, 0.12, 30);
  one.Used(1, 0.12, 30);
  EXPECT_EQ(one.Objecting(), Names{});
  one.Used(0, 0.12, 34);
  EXPECT_EQ(one.Objecting(), Names{"rates"});
  one.Used(0, 0.12, 28);
  EXPECT_EQ(one.Objecting(), Names{"rates"});
  one.scenario.tenants[1].scenes[0].gpu = milliseconds(25);  // the device doesn't suffice
  EXPECT_EQ(one.Objecting(), Names{});
}

TEST(Checkers, ReserveObjectsToMoreThanTheReservedShare) {
  Case one("reserve");
  one.Used(0, 0.5005);
  one.Used(1, 0.4);
  EXPECT_EQ(one.Objecting(), Names{});
  one.Used(0, 0.51);  // not much in any second, but in all of them together
  EXPECT_EQ(one.Objecting(), Names{"reserve"});
}

TEST(Checkers, EverybodyGetsOn) {
  Case one("none");
  one.Used(0, 0.9);
  one.Used(1, 0, 0);
  EXPECT_EQ(one.Objecting(), Names{"progress"});
  one.scenario.tenants[1].end = seconds(4);
  EXPECT_EQ(one.Objecting(), Names{});
}

TEST(Checkers, WhatIsChargedIsWhatWasDone) {
  Case one("none");
  one.Used(0, 0.5);
  one.Used(1, 0.5);
  one.record.tenants[0].charged_ns = one.record.tenants[0].worked_ns = 10'000'000'000;
  EXPECT_EQ(one.Objecting(), Names{});
  one.record.tenants[0].charged_ns -= 50'000'000;
  EXPECT_EQ(one.Objecting(), Names{"books"});
  one.record.tenants[0].charged_ns += 50'000'000;
  one.record.tenants[1].booked_ns = 50'000'000;
  EXPECT_EQ(one.Objecting(), Names{"books"});
}

TEST(CalmStretches, LieBetweenWhatHappens) {
  Case one("none");
  sim::ScenarioChange change;
  change.at = milliseconds(5300);
  change.policy = "reserve";
  one.run.changes = {change};
  one.scenario.faults = {{.kind = FaultKind::kDeviceStall, .at = seconds(10), .until = seconds(12)},
                         {.kind = FaultKind::kCpuSteal, .at = seconds(11), .until = milliseconds(11'500)}};
  const std::vector<Stretch> calm = CalmStretches(one.scenario, one.run, 0);
  ASSERT_EQ(calm.size(), 3u);
  EXPECT_EQ(calm[0].from_s, 2);
  EXPECT_EQ(calm[0].to_s, 5);
  EXPECT_EQ(calm[0].policy, "none");
  EXPECT_EQ(calm[1].from_s, 8);
  EXPECT_EQ(calm[1].to_s, 10);
  EXPECT_EQ(calm[1].policy, "reserve");
  EXPECT_EQ(calm[1].params.at("period_ms"), 1.0);
  EXPECT_EQ(calm[2].from_s, 14);
  EXPECT_EQ(calm[2].to_s, 20);
}

}  // namespace
}  // namespace weir::sim
