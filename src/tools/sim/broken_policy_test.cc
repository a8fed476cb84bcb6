// SPDX-License-Identifier: Apache-2.0
// Policies that are broken on purpose do not meet the expectations of the scenarios.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tools/sim/play.h"
#include "tools/sim/scenario_file.h"

namespace weir::cli {
namespace {

/// The unmet expectations of the scenario, played with the policies of this maker; without a maker, with Weir's own.
std::vector<std::string> UnmetOf(const std::string& name, const engine::PolicyMaker& maker) {
  auto scenario = LoadScenario(name);
  EXPECT_TRUE(scenario) << scenario.error().message;
  if (!scenario) return {};
  const Played played = Play(std::move(*scenario), {.tamper = {.policy = maker}});
  std::vector<std::string> unmet;
  for (const Judged& judged : JudgeAll(played))
    if (!judged.met) unmet.push_back(WhatText(*judged.expectation));
  return unmet;
}

/// A policy whose input or verdicts are altered.
class Broken final : public core::Policy {
 public:
  using Fault = std::function<void(core::PolicyInput&, std::vector<core::VgpuView>&)>;
  Broken(std::unique_ptr<core::Policy> inner, Fault before, std::function<void(core::Verdict&)> after)
      : inner_(std::move(inner)), before_(std::move(before)), after_(std::move(after)) {}
  Instant Decide(const core::PolicyInput& input, std::span<core::Verdict> verdicts) override {
    std::vector<core::VgpuView> views(input.vgpus.begin(), input.vgpus.end());
    core::PolicyInput told = input;
    if (before_) before_(told, views);
    told.vgpus = views;
    const Instant next = inner_->Decide(told, verdicts);
    if (after_) std::ranges::for_each(verdicts, after_);
    return next;
  }

 private:
  std::unique_ptr<core::Policy> inner_;
  Fault before_;
  std::function<void(core::Verdict&)> after_;
};

/// Breaks the policy of this name only.
engine::PolicyMaker Breaking(std::string_view policy, Broken::Fault before,
                             std::function<void(core::Verdict&)> after = {}) {
  return [=](const core::PolicyEntry& entry, const core::PolicyParams& params) -> std::unique_ptr<core::Policy> {
    if (entry.name != policy) return entry.make(params);
    return std::make_unique<Broken>(entry.make(params), before, after);
  };
}

TEST(BrokenPolicy, OursMeetWhatIsExpected) {
  for (const char* name : {"vgris-fig7", "vgris-fig10", "vgris-fig11"})
    EXPECT_EQ(UnmetOf(name, {}), std::vector<std::string>{}) << name;
}

TEST(BrokenPolicy, SlaAwareThatPacesNobodyIsSeen) {
  const auto maker = Breaking("sla-aware", {}, [](core::Verdict& verdict) { verdict.frame_interval = Duration{0}; });
  EXPECT_NE(UnmetOf("vgris-fig7", maker), std::vector<std::string>{});
}

TEST(BrokenPolicy, SharesThatAreBlindToWeightsAreSeen) {
  const auto blind = [](core::PolicyInput&, std::vector<core::VgpuView>& views) {
    for (core::VgpuView& view : views) view.weight = 1;
  };
  EXPECT_NE(UnmetOf("vgris-fig10", Breaking("proportional-share", blind)), std::vector<std::string>{});
}

TEST(BrokenPolicy, HybridThatNeverSeesALowRateIsSeen) {
  const auto content = [](core::PolicyInput&, std::vector<core::VgpuView>& views) {
    for (core::VgpuView& view : views) view.rate = 1'000;
  };
  EXPECT_NE(UnmetOf("vgris-fig11", Breaking("hybrid", content)), std::vector<std::string>{});
}

}  // namespace
}  // namespace weir::cli
