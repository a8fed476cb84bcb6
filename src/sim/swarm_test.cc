// SPDX-License-Identifier: Apache-2.0
#include "sim/swarm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "sim/checkers.h"
#include "sim/simulation.h"

namespace weir::sim {
namespace {

TEST(Swarm, DrawsWhatTheProductTakes) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Scenario scenario = DrawScenario(seed);
    const sim::Run& run = scenario.runs.front();
    ASSERT_GE(scenario.tenants.size(), 1u);
    ASSERT_LE(scenario.tenants.size(), 12u);
    EXPECT_TRUE(core::CheckParams(**core::FindPolicy(run.policy), run.params)) << Describe(scenario);
    for (const Tenant& tenant : scenario.tenants) {
      EXPECT_TRUE(engine::CheckSettings(tenant.settings)) << Describe(scenario);
      EXPECT_LT(tenant.device, scenario.devices.size());
    }
    for (const ScenarioChange& change : run.changes) {
      EXPECT_LE(change.at, kMended);
      if (change.oversell)
        EXPECT_TRUE(core::CheckOversellParams(change.oversell_params)) << Describe(scenario);
      else if (change.of_policy())
        EXPECT_TRUE(core::CheckParams(**core::FindPolicy(change.policy), change.params)) << Describe(scenario);
      else
        EXPECT_TRUE(engine::CheckSettings(change.settings)) << Describe(scenario);
    }
    for (const Fault& fault : scenario.faults) EXPECT_LE(fault.until, kMended);
  }
}

TEST(Swarm, TheSameSeedGivesTheSameRun) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    EXPECT_EQ(PlaySeed(seed).record.digest, PlaySeed(seed).record.digest) << seed;
}

// The gates of a device that is sold are polled for reports, about once a second. While no policy asks for a decision,
// doorbells are needed all the same: after a stall, a vGPU spent the slice of one period in the next period, and no
// poll noticed it.
TEST(Swarm, AVgpuThatGoesOnAfterAStallIsSeenAlsoWhereDevicesAreSold) {
  const SeedPlayed played = PlaySeed(1025871);
  EXPECT_TRUE(played.objections.empty()) << played.objections.front();
}

// -- Planted bugs: each must be found ---------------------------------------------------------------------------------

/// The first of a hundred seeds with an objection that begins with `by`; 0: no seed has one.
std::uint64_t FoundAt(const std::function<Tamper()>& plant, std::string_view by = "") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const SeedPlayed played = PlaySeed(seed, plant());
    for (const std::string& objection : played.objections) {
      if (!objection.starts_with(by)) continue;
      std::printf("found with seed %d: %s\n", static_cast<int>(seed), objection.c_str());
      return seed;
    }
  }
  return 0;
}

/// A policy that is created again every second, and so forgets every debt.
class Forgetful final : public core::Policy {
 public:
  Forgetful(const core::PolicyEntry& entry, core::PolicyParams params) : entry_(entry), params_(std::move(params)) {}
  Instant Decide(const core::PolicyInput& input, std::span<core::Verdict> verdicts) override {
    const std::int64_t second = NsOf(input.now) / 1'000'000'000;
    if (!inner_ || second != second_) inner_ = entry_.make(params_);
    second_ = second;
    return inner_->Decide(input, verdicts);
  }

 private:
  const core::PolicyEntry& entry_;
  const core::PolicyParams params_;
  std::unique_ptr<core::Policy> inner_;
  std::int64_t second_ = 0;
};

TEST(Swarm, FindsADebtThatIsForgivenEverySecond) {
  EXPECT_GT(FoundAt([] {
              return Tamper{.policy = [](const core::PolicyEntry& entry, const core::PolicyParams& params) {
                return std::make_unique<Forgetful>(entry, params);
              }};
            }),
            0u);
}

TEST(Swarm, FindsAWakeThatIsLostNowAndThen) {
  // One wake in a hundred is lost, and with it those of the next second: like an engine that wakes a waiting process
  // only once.
  const auto plant = [] {
    return Tamper{
        .actions = [prng = Prng(1), deaf = std::map<VgpuId, Instant>()](Instant now, engine::Actions& actions) mutable {
          for (engine::AllowanceGrant& grant : actions.grant) {
            if (!grant.wake) continue;
            Instant& until = deaf[grant.vgpu];
            if (now >= until && prng.Between(1, 100) == 1) until = now + seconds(1);
            if (now < until) grant.wake = false;
          }
        }};
  };
  EXPECT_GT(FoundAt(plant), 0u);
}

TEST(Swarm, FindsSlotsThatAreGivenAwayBeforeTheyAreLeft) {
  // Memory orders that lower the assigned slots do not arrive; the engine goes on as if they had been carried out.
  const auto plant = [] {
    return Tamper{.actions = [most = std::map<VgpuId, std::uint32_t>()](Instant, engine::Actions& actions) mutable {
      for (engine::Publish& publish : actions.publish) {
        std::uint32_t& before = most[publish.vgpu];
        before = publish.memory.here = std::max(std::min(before, publish.memory.limit), publish.memory.here);
      }
    }};
  };
  EXPECT_GT(FoundAt(plant), 0u);
}

TEST(Swarm, FindsADeviceThatIdlesWhileAPresentWaitsForABlank) {
  Scenario scenario;
  scenario.span = seconds(20);
  for (const char* name : {"blank", "greedy"}) {
    Tenant& tenant = scenario.tenants.emplace_back();
    tenant.name = name;
    tenant.scenes = {{.gpu = milliseconds(name[0] == 'b' ? 2 : 5)}};
  }
  scenario.tenants[0].vsync_hz = 30;
  scenario.tenants[0].frames_ahead = kFramesAheadOfTheBlank;
  for (const char* policy : {"proportional-share", "round-robin"})
    for (const bool planted : {false, true}) {
      const sim::Run run{.label = policy, .policy = policy};
      Simulation simulation(scenario, run, {.tamper = {.present_first = planted}});
      simulation.RunUntil(scenario.span);
      const std::vector<std::string> objections = CheckRun(scenario, run, simulation.Take());
      ASSERT_EQ(objections.empty(), !planted) << policy;
      const auto of_idle = [](const std::string& objection) { return objection.starts_with("idle:"); };
      EXPECT_EQ(std::ranges::any_of(objections, of_idle), planted) << policy;
    }
}

TEST(Swarm, FindsAllowancesThatComeLate) {
  // In every half second no process is woken for 15 ms: like a policy that waits for a program that does not come back.
  const auto plant = [] {
    return Tamper{.actions = [](Instant now, engine::Actions& actions) {
      if (NsOf(now) % 500'000'000 > 15'000'000) return;
      for (engine::AllowanceGrant& grant : actions.grant) grant.wake = false;
    }};
  };
  EXPECT_GT(FoundAt(plant, "idle:"), 0u);
}

/// Gives every vGPU only a third of its cap.
class Stingy final : public core::Policy {
 public:
  explicit Stingy(std::unique_ptr<core::Policy> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] bool keeps_caps() const override { return inner_->keeps_caps(); }
  Instant Decide(const core::PolicyInput& input, std::span<core::Verdict> verdicts) override {
    views_.assign(input.vgpus.begin(), input.vgpus.end());
    for (core::VgpuView& view : views_) view.cap = Share::FromFraction(view.cap.Fraction() / 3);
    return inner_->Decide({input.now, views_}, verdicts);
  }

 private:
  const std::unique_ptr<core::Policy> inner_;
  std::vector<core::VgpuView> views_;
};

TEST(Swarm, FindsCeilingsThatWereSoldAndAreNotHad) {
  EXPECT_GT(FoundAt([] {
              return Tamper{.policy = [](const core::PolicyEntry& entry,
                                         const core::PolicyParams& params) -> std::unique_ptr<core::Policy> {
                if (entry.name != "cap") return entry.make(params);
                return std::make_unique<Stingy>(entry.make(params));
              }};
            }),
            0u);
}

/// Confuses the weights of the first two vGPUs.
class Swapped final : public core::Policy {
 public:
  explicit Swapped(std::unique_ptr<core::Policy> inner) : inner_(std::move(inner)) {}
  Instant Decide(const core::PolicyInput& input, std::span<core::Verdict> verdicts) override {
    views_.assign(input.vgpus.begin(), input.vgpus.end());
    if (views_.size() > 1) std::swap(views_[0].weight, views_[1].weight);
    return inner_->Decide({input.now, views_}, verdicts);
  }

 private:
  const std::unique_ptr<core::Policy> inner_;
  std::vector<core::VgpuView> views_;
};

TEST(Swarm, FindsWeightsThatAreSwappedByAChangeOfPolicy) {
  const auto plant = [] {
    // An engine makes two policies at its start, the default and the run's. Only those of later changes are wrong.
    return Tamper{.policy = [made = 0](const core::PolicyEntry& entry,
                                       const core::PolicyParams& params) mutable -> std::unique_ptr<core::Policy> {
      if (++made <= 2) return entry.make(params);
      return std::make_unique<Swapped>(entry.make(params));
    }};
  };
  EXPECT_GT(FoundAt(plant), 0u);
}

}  // namespace
}  // namespace weir::sim
