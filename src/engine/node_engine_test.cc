// SPDX-License-Identifier: Apache-2.0
#include "engine/node_engine.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "tests/harness/model_node.h"

namespace weir::engine {
namespace {

using testing::ModelNode;

TEST(NodeEngine, RefusesInvalidSettingsWithAReason) {
  ModelNode node;
  node.AddVgpu("a", {});
  const auto refused = [&node](const Event& event) {
    const Status status = node.Do(event);
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(refused(CreateVgpu{"a", "", {}, {}}), "a vGPU named 'a' exists already");
  EXPECT_EQ(refused(CreateVgpu{"b", "gpu7", {}, {}}), "no device named 'gpu7'; existing: embedded");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.weight = 0}, {}}), "weight = 0 is outside 1 … 10000");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.cap = Share{}}, {}}), "cap = 0 is outside 0.01 … 1");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.cap = Share::FromFraction(20)}, {}}),
            "cap = 20 is outside 0.01 … 1; write 0.2 or 20%");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.cap = Share::FromFraction(1.5)}, {}}),
            "cap = 1.5 is outside 0.01 … 1; 100% is the most");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.fps = -1}, {}}), "fps = -1 is outside 0 … 1000 (0: no promise)");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.fps = 60, .tasks_per_s = 20}, {}}),
            "fps = 60 and tasks_per_s = 20: a vGPU has one promised rate; set the other to 0");
  EXPECT_EQ(refused(CreateVgpu{"b", "", {.memory_min = MiB(2), .memory_max = MiB(1)}, {}}),
            "memory: the minimum (2097152 bytes) is over the maximum (1048576 bytes)");
  EXPECT_EQ(refused(SetVgpu{VgpuId{99}, {}}), "no vGPU with id 99");
  EXPECT_EQ(refused(SetPolicy{"", "fastest", {}}),
            "unknown policy 'fastest'; known: none, proportional-share, sla-aware, hybrid, reserve, cap, "
            "cap-paper, round-robin");
  EXPECT_EQ(refused(SetPolicy{"", "reserve", {{"period_ms", 0.0}}}),
            "policy reserve: period_ms = 0 is outside 0.1 … 1000 ms");
  EXPECT_EQ(refused(SetPolicy{"", "none", {{"speed", 1.0}}}), "policy none has no parameter 'speed'; it has none");
  EXPECT_EQ(node.engine().Find("zz").error().message, "no vGPU named 'zz'; existing: a");
}

TEST(NodeEngine, NamesBecomeFilesSoTheyAreChecked) {
  for (const char* good : {"a", "game-1", "A.b_c"}) EXPECT_TRUE(CheckName(good).has_value()) << good;
  for (const char* bad : {"", ".", "..", "-x", "a/b", "a b", "a\n", "é"})
    EXPECT_FALSE(CheckName(bad).has_value()) << bad;
  EXPECT_FALSE(CheckName(std::string(64, 'x')).has_value());
}

TEST(NodeEngine, PausingPublishesTheModeAndNotifiesTheAgents) {
  NodeEngine engine({{"embedded", "software", {0}}});
  Actions actions;
  const Instant now = InstantFromNs(1'000'000'000);
  ASSERT_TRUE(engine.Step(now, CreateVgpu{"a", "", {}, {}}, actions));
  const VgpuId id = actions.created;
  ASSERT_TRUE(engine.Step(now, PauseVgpu{id, true}, actions));
  ASSERT_EQ(actions.publish.size(), 1U);
  EXPECT_EQ(actions.publish[0].mode, proto::GateMode::kPaused);
  ASSERT_EQ(actions.tell.size(), 1U);
  EXPECT_EQ(actions.tell[0].command, proto::CommandKind::kPause);
  ASSERT_TRUE(engine.Step(now, PauseVgpu{id, false}, actions));
  EXPECT_EQ(actions.publish[0].mode, proto::GateMode::kGated);
  EXPECT_EQ(actions.tell[0].command, proto::CommandKind::kResume);
}

TEST(NodeEngine, PublishesLimitsInTheUnitsOfTheGate) {
  NodeEngine engine({{"embedded", "software", {0}}});
  Actions actions;
  ASSERT_TRUE(engine.Step(InstantFromNs(1),
                          CreateVgpu{"a", "", {.cap = Share::FromFraction(0.5), .memory_max = MiB(65)}, {}}, actions));
  ASSERT_EQ(actions.publish.size(), 1U);
  EXPECT_EQ(actions.publish[0].cap.ppm, 500'000U);
  EXPECT_EQ(actions.publish[0].memory.limit, 2U);
}

TEST(NodeEngine, AHostileTenantsAllowanceIsIgnored) {
  for (const std::int64_t garbage :
       {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    ModelNode node;
    const VgpuId hostile = node.AddVgpu("hostile", {.weight = 50});
    const VgpuId honest = node.AddVgpu("honest", {.weight = 50});
    node.AddProcess(hostile, {});
    node.AddProcess(honest, {});
    node.RunFor(seconds(1));
    node.Allowance(hostile) = garbage;
    node.RunFor(milliseconds(10));
    auto before = node.Snapshot();
    node.RunFor(seconds(5));
    EXPECT_NEAR(node.ShareSince(before, honest), 0.5, 0.01);
    EXPECT_GE(node.engine().Vgpu(node.now(), hostile)->samples_bad, 1U);
  }
}

TEST(NodeEngine, AVgpuThatFalselyClaimsToBeBusyStopsDelayingOthers) {
  NodeEngine engine({{"embedded", "software", {0}}});
  Actions actions;
  Instant now = InstantFromNs(1'000'000'000);
  ASSERT_TRUE(engine.Step(now, CreateVgpu{"stuck", "", {.weight = 90}, {}}, actions));
  const VgpuId stuck = actions.created;
  ASSERT_TRUE(engine.Step(now, CreateVgpu{"busy", "", {.weight = 10}, {}}, actions));
  const VgpuId busy = actions.created;
  ASSERT_TRUE(engine.Step(now, ProcessAttached{stuck, ProcessId{1}}, actions));
  ASSERT_TRUE(engine.Step(now, ProcessAttached{busy, ProcessId{2}}, actions));
  std::int64_t stuck_allowance = 0, busy_allowance = 0;
  std::int64_t spent_ns = 0;
  for (int tick = 0; tick < 3000; ++tick) {
    now += milliseconds(1);
    const GateSample samples[] = {{stuck, stuck_allowance, 0, 1}, {busy, busy_allowance, 1, 0}};
    ASSERT_TRUE(engine.Step(now, GatesSampled{samples}, actions));
    for (const AllowanceGrant& grant : actions.grant)
      (grant.vgpu == stuck ? stuck_allowance : busy_allowance) += grant.delta_ns;
    if (busy_allowance <= 0) continue;
    busy_allowance -= 1'000'000;
    if (tick > 1000) spent_ns += 1'000'000;
  }
  EXPECT_GT(spent_ns, 1'900'000'000);  // of the two seconds after detection
}

// The device cannot preempt. The long kernel is reserved when it begins, and charged when it ends.
TEST(NodeEngine, AVgpuThatWaitsBehindALongKernelKeepsItsClaim) {
  NodeEngine engine({DeviceSpec{"card", "gpu", {}}});
  Actions actions;
  Instant now = InstantFromNs(1'000'000'000);
  ASSERT_TRUE(engine.Step(now, CreateVgpu{"long", "", {}, {}}, actions));
  const VgpuId long_one = actions.created;
  ASSERT_TRUE(engine.Step(now, CreateVgpu{"short", "", {}, {}}, actions));
  const VgpuId short_one = actions.created;
  ASSERT_TRUE(engine.Step(now, ProcessAttached{long_one, ProcessId{1}}, actions));
  ASSERT_TRUE(engine.Step(now, ProcessAttached{short_one, ProcessId{2}}, actions));
  std::int64_t long_allowance = 0, short_allowance = 0;
  const auto look = [&] {
    const GateSample samples[] = {{long_one, long_allowance, 0, 1}, {short_one, short_allowance, 0, 1}};
    ASSERT_TRUE(engine.Step(now, GatesSampled{samples}, actions));
    for (const AllowanceGrant& grant : actions.grant)
      (grant.vgpu == long_one ? long_allowance : short_allowance) += grant.delta_ns;
  };
  look();
  long_allowance -= 3'000'000'000;
  short_allowance -= 2'000'000;
  for (int tick = 0; tick < 3000; ++tick) {
    now += milliseconds(1);
    look();
    ASSERT_LE(long_allowance, 0) << "after " << tick << " ms it may go again before the other one had anything";
  }
}

TEST(NodeEngine, RestoredVgpusKeepTheirIdsAndNewOnesGetOthers) {
  NodeEngine engine({{"embedded", "software", {0}}});
  Actions actions;
  ASSERT_TRUE(engine.Step(InstantFromNs(1), CreateVgpu{"old", "", {}, VgpuId{7}}, actions));
  EXPECT_EQ(actions.created, VgpuId{7});
  ASSERT_TRUE(engine.Step(InstantFromNs(1), CreateVgpu{"new", "", {}, {}}, actions));
  EXPECT_EQ(actions.created, VgpuId{8});
}

TEST(NodeEngine, RemovingOneVgpuKeepsTheDebtOfTheOthers) {
  ModelNode node;
  const VgpuId first = node.AddVgpu("first", {.weight = 50});
  const VgpuId second = node.AddVgpu("second", {.weight = 30});
  const VgpuId third = node.AddVgpu("third", {.weight = 20});
  node.AddProcess(second, {.gpu = milliseconds(9)});
  node.AddProcess(third, {.gpu = milliseconds(4)});
  node.RunFor(seconds(2));
  ASSERT_TRUE(node.Do(RemoveVgpu{first}));  // the last view moves into its place
  auto before = node.Snapshot();
  node.RunFor(seconds(10));
  EXPECT_NEAR(node.ShareSince(before, second), 0.6, 0.01);
  EXPECT_NEAR(node.ShareSince(before, third), 0.4, 0.01);
}

// Any order of events, including invalid ones, leaves an engine that still answers and keeps its sums.
RC_GTEST_PROP(NodeEngine, SurvivesAnyOrderOfEvents, ()) {
  NodeEngine engine({{"embedded", "software", {0}}});
  Actions actions;
  Instant now = InstantFromNs(1);
  const auto steps = *rc::gen::container<std::vector<std::pair<std::uint8_t, std::int64_t>>>(
      rc::gen::arbitrary<std::pair<std::uint8_t, std::int64_t>>());
  for (const auto& [what, value] : steps) {
    now += Duration{std::abs(value % 1'000'000'000)};
    const VgpuId id{static_cast<std::uint64_t>(value & 3) + 1};
    const GateSample sample{id, value, static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 7)};
    Status status = Ok();
    switch (what % 7) {
      case 0: status = engine.Step(now, CreateVgpu{"v" + std::to_string(value & 3), "", {}, {}}, actions); break;
      case 1: status = engine.Step(now, RemoveVgpu{id}, actions); break;
      case 2:
        status = engine.Step(now, ProcessAttached{id, ProcessId{static_cast<std::uint64_t>(value & 7)}}, actions);
        break;
      case 3:
        status = engine.Step(
            now, ProcessDetached{id, ProcessId{static_cast<std::uint64_t>(value & 7)}, Duration{value}}, actions);
        break;
      case 4: status = engine.Step(now, GatesSampled{{&sample, 1}}, actions); break;
      case 5:
        status = engine.Step(
            now, SetPolicy{"", std::string(core::PolicyTable()[static_cast<std::size_t>(value & 3) % 3].name), {}},
            actions);
        break;
      case 6: status = engine.Step(now, PauseVgpu{id, (value & 1) != 0}, actions); break;
    }
    for (const AllowanceGrant& grant : actions.grant) RC_ASSERT(engine.Vgpu(now, grant.vgpu).has_value());
    RC_ASSERT(actions.look_again > now);
  }
  double share = 0;
  for (const VgpuStatus& vgpu : engine.Vgpus(now)) share += vgpu.gpu_share;
  RC_ASSERT(share < 1.0001);
}

}  // namespace
}  // namespace weir::engine
