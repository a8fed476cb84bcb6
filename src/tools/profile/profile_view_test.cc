// SPDX-License-Identifier: Apache-2.0
#include "tools/profile/profile_view.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/cluster_simulation.h"
#include "tools/sim/scenario_file.h"

namespace weir::cli {
namespace {

using modules::KernelProfile;

KernelProfile TwoKernels() {
  KernelProfile profile{.device = "device0",
                        .model = "a \"unit\"",
                        .capacity = {.memory = MiB(100), .runs_max = 16, .loads = {8, 10'000, 1'024, 8}}};
  profile.kernels = {{.work = {"sort", "network", "n=4 \x1b[2J"},
                      .need = {.memory = Bytes{1}, .loads = {0, 2'000, 1'024, 8}, .alone_ms = 125},
                      .alone_s = 0.125,
                      .runs = 3},
                     {.work = {"bs", "scholes", ""},
                      .need = {.loads = {0, 0, 512, 8}, .alone_ms = 250},
                      .alone_s = 0.25,
                      .runs = 3,
                      .loads_from = modules::LoadsFrom::kMeasured}};
  profile.pairs = {{.first = 0, .second = 0, .first_s = 0.25, .second_s = 0.25},
                   {.first = 0, .second = 1, .first_s = 0.2, .second_s = 0.5, .second_beside = 0.7},
                   {.first = 1, .second = 1, .first_s = 0.45, .second_s = 0.55}};
  return profile;
}

TEST(ProfileView, ShowsEachKernelBesideEach) {
  const std::string text = ProfileTables(TwoKernels(), false);
  EXPECT_NE(text.find("1  sort/network n=4 ?[2J       125          0          2000     1024       8  declared"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("measured"), std::string::npos);
  EXPECT_NE(text.find("      2.00      1.60\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    2.00~      2.00\n"), std::string::npos) << text;
  EXPECT_NE(text.find("~ the other kernel ran for less than 90 % of this one's time"), std::string::npos);
  KernelProfile partly = TwoKernels();
  partly.pairs.pop_back();
  EXPECT_NE(ProfileTables(partly, false).find("     -\n"), std::string::npos);
  partly.pairs.clear();
  EXPECT_EQ(ProfileTables(partly, false).find("BESIDE"), std::string::npos);
}

TEST(ProfileView, DescribesTheFit) {
  KernelProfile profile = TwoKernels();
  const auto said = [&] { return FitText(profile, modules::FitOf(profile).value()); };
  for (auto& pair : profile.pairs) pair = {pair.first, pair.second, 0.25, 0.25, 1, 1};
  profile.pairs[1].second_s = profile.pairs[2].first_s = profile.pairs[2].second_s = 0.5;
  profile.kernels[0].need.loads = profile.kernels[1].need.loads = {};
  EXPECT_EQ(said().find("weights: 1.00 company; off by 0.00"), 0U) << said();
  EXPECT_NE(said().find("by 1.00 times the time alone on average. 100 % of what the fit explains is company"),
            std::string::npos)
      << said();
  EXPECT_EQ(said().find("Measure again"), std::string::npos) << said();
  EXPECT_EQ(said().find("The fit is far"), std::string::npos) << said();
  EXPECT_NE(said().find("Their loads are unknown"), std::string::npos) << said();
  // Only kernels that both fill the threads slow each other.
  profile.kernels[0].need.loads = {0, 0, 1'024, 0};
  profile.pairs[1].first_s = 0.125;
  profile.pairs[1].second_s = profile.pairs[2].first_s = profile.pairs[2].second_s = 0.25;
  EXPECT_NE(said().find("is threads that both want."), std::string::npos) << said();
  EXPECT_EQ(said().find("Their loads are unknown"), std::string::npos);
  EXPECT_NE(said().find("few observations for five weights"), std::string::npos) << said();
  profile.pairs[0].first_s = profile.pairs[0].second_s = 0.125;
  EXPECT_NE(said().find("They hardly slow each other."), std::string::npos) << said();
  profile.pairs[0].first_s = 10;
  EXPECT_NE(said().find("The fit is far from the measurements"), std::string::npos) << said();
  profile.pairs[0].first_s = 0.1;
  EXPECT_NE(said().find("Some were faster beside another kernel than alone"), std::string::npos) << said();
}

TEST(ProfileView, ItsScenarioGivesTheMeasuredTimes) {
  const KernelProfile profile = TwoKernels();
  const auto text = ScenarioText(profile);
  ASSERT_TRUE(text);
  const auto scenario = ParseScenario(*text, "measured.toml");
  ASSERT_TRUE(scenario) << scenario.error().message << "\n" << *text;
  const sim::ClusterWorld& world = *scenario->cluster;
  EXPECT_EQ(sim::CapacityFor(world.devices), profile.capacity);
  EXPECT_EQ(sim::MeasuredAlone(world.kernels[1], world.devices).loads, profile.kernels[1].need.loads);
  EXPECT_EQ(scenario->runs.size(), 24U);
  const auto played = sim::ProfileAll(world.kernels, world, {}), fitted = modules::FitOf(profile);
  ASSERT_TRUE(played && fitted);
  for (std::size_t i = 0; i < core::InterferenceModel::kWeights; ++i)
    EXPECT_NEAR(played->weights()[i], fitted->weights()[i], 1e-6) << i;
}

TEST(ProfileView, AScenarioNeedsEveryPair) {
  KernelProfile partly = TwoKernels();
  partly.pairs.pop_back();
  const auto text = ScenarioText(partly);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("'bs/scholes' and 'bs/scholes' were not measured together"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
