// SPDX-License-Identifier: Apache-2.0
#include "drivers/driver_loop.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "drivers/memory_engine.h"

namespace weir::drivers {
namespace {

constexpr Duration kLook = milliseconds(250);
constexpr const char* kGpu = "n1_embedded";

/// A node that sells `ratio` devices in exact shares; other customers have bought `elsewhere`.
struct ModelNode {
  std::int64_t whole = 8;
  std::int64_t elsewhere = 0;
  std::int64_t ratio = 1;
  bool up = true;
  struct Vgpu {
    std::int64_t shares = 0;  // 0: squeezed to the minimum cap
    bool attached = false;
    double weight = 0;
  };
  std::map<std::string, Vgpu> vgpus;

  [[nodiscard]] std::int64_t Sold() const {
    std::int64_t sum = elsewhere;
    for (const auto& [name, vgpu] : vgpus) sum += vgpu.shares;
    return sum;
  }
  [[nodiscard]] std::int64_t Room() const { return std::max<std::int64_t>(ratio * whole - Sold(), 0); }
  [[nodiscard]] NodeView See() const {
    NodeView view{.sells = true, .offer = std::min(static_cast<double>(Room()) / static_cast<double>(whole), 1.0)};
    for (const auto& [name, vgpu] : vgpus)
      view.vgpus.push_back({.name = name,
                            .cap = vgpu.shares == 0 ? DriverLoop::kSqueezedCap : CapOf(vgpu.shares, whole),
                            .weight = vgpu.weight,
                            .attached = vgpu.attached});
    return view;
  }
  bool Do(const Action& action) {
    if (!up) return false;
    if (action.kind == ActionKind::kMakeVgpu) {
      if (!vgpus.contains(action.vgpu) && action.shares > Room()) return false;
      vgpus.try_emplace(action.vgpu, Vgpu{.shares = action.shares, .weight = WeightOf(action.shares)});
      return true;
    }
    const auto there = vgpus.find(action.vgpu);
    if (there == vgpus.end()) return false;
    if (action.kind == ActionKind::kRemoveVgpu) return !there->second.attached && vgpus.erase(action.vgpu) == 1;
    there->second.shares = action.kind == ActionKind::kSqueeze ? 0 : SharesOf(action.cap, whole);
    if (action.kind == ActionKind::kResize) there->second.weight = WeightOf(action.shares);
    return true;
  }
};

/// A node, an engine and a driver between them, in virtual time.
struct Scene {
  ModelNode node;
  MemoryEngine engine;
  bool engine_up = true;
  DriverLoop loop{{.shares = 8, .prefix = "os"}, 1};
  Instant now = InstantFromNs(0);
  int engine_calls = 0;

  [[nodiscard]] std::int64_t Sellable() { return engine.ReadUsage(kGpu).value().sellable; }

  void Look(const std::function<bool(const Action&)>& fails = [](const Action&) { return false; }) {
    Sighting seen;
    if (node.up) seen.node = node.See();
    const auto usage = engine.ReadUsage(kGpu);
    if (engine_up && usage) seen.usage = *usage;
    seen.published = !engine_up || usage.has_value();
    for (const Action& action : loop.Step(now, seen)) {
      if (action.kind == ActionKind::kSetSellable && node.up) {
        const std::int64_t consumers = node.Sold() - node.elsewhere;
        EXPECT_EQ(action.shares, consumers + std::min(node.Room(), node.whole)) << "never more than the node offers";
      }
      loop.Done(now, action, !fails(action) && Do(action));
    }
    now += kLook;
  }
  bool Do(const Action& action) {
    const bool engines = action.kind == ActionKind::kPublish || action.kind == ActionKind::kSetSellable;
    if (!engines) return node.Do(action);
    ++engine_calls;
    if (!engine_up) return false;
    return action.kind == ActionKind::kPublish ? engine.Publish(kGpu, action.shares).has_value()
                                               : engine.SetSellable(kGpu, action.shares).has_value();
  }
  void Looks(int n) {
    for (int i = 0; i < n; ++i) Look();
  }
};

TEST(DriverLoop, OffersBecomeSellableAndVgpusFollowTheirConsumers) {
  Scene s;
  s.Looks(2);
  EXPECT_EQ(s.Sellable(), 8);
  ASSERT_TRUE(s.engine.Take(kGpu, {"job-1", 2, {}}));
  s.Looks(1);
  ASSERT_TRUE(s.node.vgpus.contains("os-job-1"));
  EXPECT_EQ(s.node.vgpus["os-job-1"].shares, 2);
  ASSERT_TRUE(s.engine.GiveBack(kGpu, "job-1"));
  s.Looks(1);
  EXPECT_TRUE(s.node.vgpus.contains("os-job-1")) << "one look is not enough";
  s.Looks(1);
  EXPECT_TRUE(s.node.vgpus.empty());
}

TEST(DriverLoop, LoweringStopsNewGrantsWithoutEvictions) {
  Scene s;
  s.node.ratio = 2;
  s.Looks(2);
  for (const char* job : {"1", "2", "3"}) {
    ASSERT_TRUE(s.engine.Take(kGpu, {job, 3, {}}));
    s.Looks(2);
  }
  s.node.ratio = 1;
  s.Looks(1);
  EXPECT_EQ(s.Sellable(), 9);
  EXPECT_FALSE(s.engine.Take(kGpu, {"4", 1, {}}));
  s.Looks(8);
  EXPECT_EQ(s.node.vgpus.size(), 3U);
  ASSERT_TRUE(s.engine.GiveBack(kGpu, "2"));
  s.Looks(3);
  EXPECT_EQ(s.Sellable(), 8) << "six are used, and two can be sold";
}

TEST(DriverLoop, AMissingNodeSellsNothing) {
  Scene s;
  s.Looks(2);
  s.node.up = false;
  s.Looks(4);
  EXPECT_EQ(s.Sellable(), 8) << "daemons are started anew";
  s.Looks(12);
  EXPECT_EQ(s.Sellable(), 0);
  s.node.up = true;
  s.Looks(1);
  EXPECT_EQ(s.Sellable(), 8);
}

TEST(DriverLoop, AProgramWithoutAGrantGetsTheLeastCapUntilItEnds) {
  Scene s;
  s.Looks(2);
  ASSERT_TRUE(s.engine.Take(kGpu, {"vm", 4, {}}));
  s.Looks(1);
  s.node.vgpus["os-vm"].attached = true;
  ASSERT_TRUE(s.engine.GiveBack(kGpu, "vm"));
  s.Looks(3);
  EXPECT_EQ(s.node.vgpus["os-vm"].shares, 0);
  EXPECT_EQ(s.Sellable(), 8) << "what was given back can be sold";
  s.node.vgpus["os-vm"].attached = false;
  s.Looks(1);
  EXPECT_TRUE(s.node.vgpus.empty());
}

TEST(DriverLoop, AConsumerWithOtherSharesGetsTheirCapAndTheirWeight) {
  Scene s;
  s.Looks(2);
  ASSERT_TRUE(s.engine.Take(kGpu, {"vm", 2, {}}));
  s.Looks(1);
  EXPECT_EQ(s.node.vgpus["os-vm"].weight, 200);
  ASSERT_TRUE(s.engine.GiveBack(kGpu, "vm"));
  ASSERT_TRUE(s.engine.Take(kGpu, {"vm", 4, {}}));
  s.Looks(1);
  EXPECT_EQ(s.node.vgpus["os-vm"].shares, 4);
  EXPECT_EQ(s.node.vgpus["os-vm"].weight, 400);
  s.node.vgpus["os-vm"].weight = 200;
  s.Looks(1);
  EXPECT_EQ(s.node.vgpus["os-vm"].weight, 400) << "although its cap is right";
}

TEST(DriverLoop, ANewDriverFindsItsConsumersVgpusAgain) {
  Scene s;
  s.Looks(2);
  ASSERT_TRUE(s.engine.Take(kGpu, {"a", 1, {}}));
  s.Looks(1);
  s.loop = DriverLoop({.shares = 8, .prefix = "os"}, 2);
  s.engine_calls = 0;
  s.Looks(4);
  EXPECT_EQ(s.node.vgpus.size(), 1U);
  EXPECT_EQ(s.engine_calls, 0) << "all was as it should be";
}

TEST(DriverLoop, AnEngineThatLostTheDeviceIsUpdatedAgain) {
  Scene s;
  s.Looks(2);
  s.engine = MemoryEngine();
  s.Looks(2);
  EXPECT_EQ(s.Sellable(), 8);
}

TEST(DriverLoop, AnUnchangeableEngineIsNotUpdatedRepeatedly) {
  DriverLoop loop({.shares = 8, .prefix = "slurm"}, 1);
  Sighting seen{.node = NodeView{.sells = true, .offer = 1},
                .usage = Usage{.sellable = 6, .sellable_max = 6, .grants = {}}};
  EXPECT_TRUE(loop.Step(InstantFromNs(0), seen).empty());
}

RC_GTEST_PROP(DriverLoopLaws, ConvergesWithoutEvictionsUnderAnyEvents, ()) {
  Scene s;
  std::map<std::string, std::int64_t> customers;
  const int events = *rc::gen::inRange(1, 120);
  for (int i = 0; i < events; ++i) {
    const std::string consumer = std::to_string(*rc::gen::inRange(0, 12));
    switch (*rc::gen::inRange(0, 9)) {
      case 0:
      case 1: {
        const std::int64_t shares = *rc::gen::inRange(1, 5);
        if (s.engine.Take(kGpu, {consumer, shares, {}})) customers[consumer] = shares;
        break;
      }
      case 2:
        if (s.engine.GiveBack(kGpu, consumer)) customers.erase(consumer);
        break;
      case 3: s.node.ratio = *rc::gen::inRange(1, 4); break;
      case 4: s.node.elsewhere = *rc::gen::inRange(0, 9); break;
      case 5: s.node.up = !s.node.up; break;
      case 6: s.engine_up = !s.engine_up; break;
      case 7: s.loop = DriverLoop({.shares = 8, .prefix = "os"}, 3); break;
      default:
        if (!s.node.vgpus.empty()) s.node.vgpus.begin()->second.attached ^= true;
    }
    const bool failing = *rc::gen::inRange(0, 3) == 0;
    s.Look([&](const Action&) { return failing; });
    if (const auto usage = s.engine.ReadUsage(kGpu)) {
      RC_ASSERT(usage->grants.size() == customers.size());
      for (const Grant& grant : usage->grants) RC_ASSERT(customers.at(grant.consumer) == grant.shares);
    }
  }
  s.node.up = s.engine_up = true;
  s.node.elsewhere = 0;
  s.node.ratio = 10;  // room for every grant
  for (auto& [name, vgpu] : s.node.vgpus) vgpu.attached = false;
  s.Looks(60);  // 15 s: three maximum pauses
  RC_ASSERT(s.node.vgpus.size() == customers.size());
  for (const auto& [consumer, shares] : customers) {
    RC_ASSERT(s.node.vgpus.at("os-" + consumer).shares == shares);
    RC_ASSERT(s.node.vgpus.at("os-" + consumer).weight == WeightOf(shares));
  }
  RC_ASSERT(s.Sellable() == s.node.Sold() + std::min(s.node.Room(), s.node.whole));
}

RC_GTEST_PROP(DriverLoopLaws, FailuresAreRetriedWithBackoff, ()) {
  Scene s;
  s.Looks(2);
  const int seconds_down = *rc::gen::inRange(1, 120);
  s.node.elsewhere = 4;
  int tries = 0;
  for (int i = 0; i < seconds_down * 4; ++i) s.Look([&](const Action&) { return ++tries > 0; });
  // Six pauses to reach the maximum, then at most one try in 2.5 s.
  RC_ASSERT(tries >= 1);
  RC_ASSERT(tries <= 7 + seconds_down * 2 / 5);
  s.Looks(21);
  RC_ASSERT(s.Sellable() == 4);
}

}  // namespace
}  // namespace weir::drivers
