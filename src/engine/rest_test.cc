// SPDX-License-Identifier: Apache-2.0
// Which vGPUs rest, and that decisions about the others are the same as if no vGPU rested.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/prng.h"
#include "engine/node_engine.h"

namespace weir::engine {
namespace {

/// An engine, and gates that spend what the test says, whatever the engine grants. Gates of resting vGPUs are not
/// sampled.
class Node {
 public:
  explicit Node(PolicyMaker maker = {})
      : engine_(std::vector<DeviceSpec>{{.name = "gpu", .kind = "gpu", .cpus = {}}}, std::move(maker)), gates_(1) {}

  Status Step(const Event& event) {
    Status status = engine_.Step(now_, event, actions_);
    granted_.clear();
    if (actions_.created) gates_.resize(std::max<std::size_t>(gates_.size(), actions_.created.value + 1));
    for (const AllowanceGrant& grant : actions_.grant) {
      gates_[grant.vgpu.value].allowance_ns += grant.delta_ns;
      granted_.push_back(grant.vgpu);
    }
    for (const Rest& rest : actions_.rest) gates_[rest.vgpu.value].rests = rest.resting;
    return status;
  }
  VgpuId Add(const std::string& name, const VgpuSettings& settings = {}, bool attached = true) {
    EXPECT_TRUE(Step(CreateVgpu{.name = name, .device = "gpu", .settings = settings, .id = {}}).has_value());
    const VgpuId id = actions_.created;
    if (attached) Attach(id);
    return id;
  }
  void Attach(VgpuId id) {
    gates_[id.value].attached = true;
    EXPECT_TRUE(Step(ProcessAttached{id, ProcessId{id.value}}).has_value());
  }
  void Detach(VgpuId id) {
    gates_[id.value] = {.allowance_ns = gates_[id.value].allowance_ns, .rests = gates_[id.value].rests};
    EXPECT_TRUE(Step(ProcessDetached{id, ProcessId{id.value}}).has_value());
  }
  struct Gate {
    std::int64_t allowance_ns = 0;
    std::uint32_t waiting = 0, in_flight = 0;
    bool attached = false;
    bool rests = false;
    bool rang = false;
  };
  Gate& operator[](VgpuId id) { return gates_[id.value]; }
  void Spend(VgpuId id, Duration gpu) {
    gates_[id.value].allowance_ns -= gpu.count();
    gates_[id.value].rang = true;
  }
  /// Sets the counts of a gate. The agents ring if a count is above zero.
  void Want(VgpuId id, std::uint32_t waiting, std::uint32_t in_flight) {
    gates_[id.value].waiting = waiting;
    gates_[id.value].in_flight = in_flight;
    if (waiting + in_flight > 0) gates_[id.value].rang = true;
  }
  void Look(Duration after = milliseconds(1)) {
    now_ += after;
    samples_.clear();
    for (std::uint64_t i = 1; i < gates_.size(); ++i) {
      Gate& gate = gates_[i];
      if (gate.attached && (!gate.rests || gate.rang))
        samples_.push_back({.vgpu = VgpuId{i},
                            .allowance_ns = gate.allowance_ns,
                            .waiting = gate.waiting,
                            .in_flight = gate.in_flight});
      gate.rang = false;
    }
    EXPECT_TRUE(Step(GatesSampled{samples_}).has_value());
  }
  void LookFor(Duration span) {
    for (const Instant until = now_ + span; now_ < until;) Look();
  }
  [[nodiscard]] bool Granted(VgpuId id) const { return std::ranges::find(granted_, id) != granted_.end(); }
  [[nodiscard]] const Actions& actions() const { return actions_; }
  [[nodiscard]] NodeEngine& engine() { return engine_; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  NodeEngine engine_;
  Actions actions_;
  Instant now_ = InstantFromNs(5'000'000'000);
  std::vector<Gate> gates_;
  std::vector<VgpuId> granted_;
  std::vector<GateSample> samples_;
};

TEST(Rest, BeginsWhenAVgpuHasBeenIdleForLonger) {
  Node node;
  const VgpuId busy = node.Add("busy"), idle = node.Add("idle"), alone = node.Add("alone", {}, false);
  const auto look = [&](int looks) {
    for (int i = 0; i < looks; ++i) {
      node.Want(busy, 1, 0);
      node.Spend(busy, milliseconds(1));
      node.Look();
    }
  };
  look(1'200);
  EXPECT_FALSE(node[idle].rests);
  look(300);
  EXPECT_TRUE(node[idle].rests);
  EXPECT_TRUE(node[alone].rests);
  EXPECT_FALSE(node[busy].rests);
  for (int i = 0; i < 100; ++i) {
    look(1);
    EXPECT_FALSE(node.Granted(idle));
  }
}

TEST(Rest, EndsBeforeTheDecisionThatFollowsAnySignOfLife) {
  Node node;
  const VgpuId busy = node.Add("busy"), idle = node.Add("idle");
  const auto rests = [&] {
    node.Want(idle, 0, 0);
    for (int i = 0; i < 1'500; ++i) {
      node.Want(busy, 1, 0);
      node.Spend(busy, milliseconds(1));
      node.Look();
    }
    EXPECT_TRUE(node[idle].rests);
  };
  rests();
  node.Want(idle, 1, 0);
  node.Look();
  EXPECT_FALSE(node[idle].rests) << "a thread waits";
  rests();
  node.Want(idle, 0, 1);
  node.Look();
  EXPECT_FALSE(node[idle].rests) << "work is in flight";
  rests();
  node.Spend(idle, microseconds(5));
  node.Look();
  EXPECT_FALSE(node[idle].rests) << "a frame has begun and ended";
  EXPECT_EQ(*node.engine().GpuTotal(idle), microseconds(5));
  rests();
  EXPECT_TRUE(node.Step(SetVgpu{idle, {.weight = 7}}).has_value());
  EXPECT_FALSE(node[idle].rests) << "its settings have changed";
  rests();
  EXPECT_TRUE(node.Step(ProcessDraws{idle, ProcessId{idle.value}, true}).has_value());
  EXPECT_FALSE(node[idle].rests) << "its process draws";
  rests();
  EXPECT_TRUE(node.Step(PauseVgpu{idle, true}).has_value());
  EXPECT_FALSE(node[idle].rests) << "it is paused";
  EXPECT_EQ(node.actions().publish.front().mode, proto::GateMode::kPaused);
  EXPECT_TRUE(node.Step(PauseVgpu{idle, false}).has_value());
  rests();
  EXPECT_TRUE(node.Step(SetPolicy{"gpu", "none", {}}).has_value());
  EXPECT_FALSE(node[idle].rests) << "another policy decides";
  EXPECT_EQ(node.actions().publish.size(), 2U);
}

// A program that returns after a long time has not waited since then.
TEST(Rest, IsNoTimeWithoutProgress) {
  Node node;
  const VgpuId busy = node.Add("busy"), idle = node.Add("idle");
  node.LookFor(milliseconds(1'500));
  ASSERT_TRUE(node[idle].rests);
  node.Look(seconds(10));
  node.Want(idle, 1, 0);
  node.Want(busy, 1, 0);
  node.Look();
  EXPECT_EQ(node.engine().Vgpu(node.now(), idle)->state, VgpuState::kWaiting);
}

TEST(Rest, DoesNotKeepAVgpuFromBeingRemoved) {
  Node node;
  std::vector<VgpuId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(node.Add("v" + std::to_string(i)));
  for (int i = 0; i < 1'500; ++i) {
    for (const std::size_t busy : {0, 3, 5}) node.Want(ids[busy], 1, 0);
    node.Look();
  }
  EXPECT_TRUE(node[ids[1]].rests);
  for (const std::size_t i : {1, 0, 5, 4, 3}) {
    node.Detach(ids[i]);
    EXPECT_TRUE(node.Step(RemoveVgpu{ids[i]}).has_value());
    node.Look();
  }
  EXPECT_EQ(node.engine().Vgpus(node.now()).size(), 1U);
  EXPECT_EQ(node.engine().Vgpus(node.now()).front().id, ids[2]);
}

TEST(Rest, IsNotForDevicesThatAreOversold) {
  Node node;
  const VgpuId idle = node.Add("idle", {.cap = Share::FromFraction(0.5)});
  EXPECT_TRUE(node.Step(SetOversell{"gpu", core::OversellMode::kAdaptive, {}}).has_value());
  node.LookFor(milliseconds(1'500));
  EXPECT_FALSE(node[idle].rests);
}

// -- The same decisions -----------------------------------------------------------------------------------------------

/// A policy that never lets a vGPU rest.
class NeverForgets final : public core::Policy {
 public:
  explicit NeverForgets(std::unique_ptr<core::Policy> policy) : policy_(std::move(policy)) {}
  Instant Decide(const core::PolicyInput& input, std::span<core::Verdict> verdicts) override {
    return policy_->Decide(input, verdicts);
  }
  [[nodiscard]] bool keeps_caps() const override { return policy_->keeps_caps(); }
  [[nodiscard]] Duration remembers() const override { return seconds(1'000'000); }

 private:
  const std::unique_ptr<core::Policy> policy_;
};

std::unique_ptr<core::Policy> MakeNeverForgetting(const core::PolicyEntry& entry, const core::PolicyParams& params) {
  return std::make_unique<NeverForgets>(entry.make(params));
}

/// Two nodes with the same programs, which come, draw, pause for some seconds, and go. On one of them vGPUs may rest.
class SameDecisions : public ::testing::TestWithParam<std::string_view> {
 protected:
  static constexpr std::size_t kVgpus = 9;
  struct Program {
    VgpuId id;
    bool here = true;
    bool in_flight = false;
    Instant acts_at{}, began = InstantFromNs(5'000'000'000);
  };

  void Both(auto&& act) {
    act(rested_);
    act(never_);
  }
  void SetUp() override {
    Both([](Node& node) { EXPECT_TRUE(node.Step(SetPolicy{"gpu", std::string(GetParam()), {}}).has_value()); });
    for (std::size_t i = 0; i < kVgpus; ++i) {
      VgpuSettings settings{.weight = static_cast<std::uint32_t>(prng_.Between(1, 50))};
      if (i % 3 == 0) settings.cap = Share::FromFraction(0.3);
      if (i % 2 == 0) settings.fps = static_cast<double>(prng_.Between(5, 60));
      Both([&](Node& node) { programs_[i].id = node.Add("v" + std::to_string(i), settings); });
    }
  }
  void Act(Program& program, Instant now) {
    if (now < program.acts_at) return;
    const Duration frame = microseconds(prng_.Between(200, 8'000));
    if (program.in_flight) {
      program.in_flight = false;
      const bool pauses = prng_.Between(0, 60) == 0;
      program.acts_at = now + (pauses ? milliseconds(prng_.Between(1, 4'000)) : microseconds(prng_.Between(0, 20'000)));
      return Both([&](Node& node) {
        node.Spend(program.id, frame);
        node.Want(program.id, 0, 0);
        const core::FrameDone done{.begin = program.began, .present = now - frame, .end = now, .gpu = frame};
        EXPECT_TRUE(node.Step(FramesDone{program.id, std::span(&done, 1)}).has_value());
        if (&node == &never_) program.began = now;
      });
    }
    if (!program.here || prng_.Between(0, 200) == 0) {
      program.here = !program.here;
      program.acts_at = now + milliseconds(prng_.Between(1, 3'000));
      return Both([&](Node& node) { program.here ? node.Attach(program.id) : node.Detach(program.id); });
    }
    program.in_flight = true;
    program.acts_at = now + frame;
    const bool waits = prng_.Between(0, 3) == 0;
    Both([&](Node& node) { node.Want(program.id, waits ? 1 : 0, waits ? 0 : 1); });
  }

  Prng prng_{11};
  Node rested_;
  Node never_{&MakeNeverForgetting};
  std::array<Program, kVgpus> programs_{};
};

TEST_P(SameDecisions, AboutVgpusThatDoNotRest) {
  int rests = 0;
  for (int look = 0; look < 20'000; ++look) {
    for (Program& program : programs_) Act(program, rested_.now());
    Both([](Node& node) { node.Look(); });
    for (const Program& program : programs_) {
      rests += rested_[program.id].rests ? 1 : 0;
      ASSERT_FALSE(never_[program.id].rests);
      if (rested_[program.id].rests || !rested_[program.id].attached) continue;
      ASSERT_EQ(rested_[program.id].allowance_ns, never_[program.id].allowance_ns)
          << "vGPU " << program.id.value << ", look " << look;
    }
    ASSERT_EQ(rested_.actions().publish.size(), never_.actions().publish.size()) << "look " << look;
    ASSERT_EQ(rested_.actions().ring_at_end.size(), never_.actions().ring_at_end.size()) << "look " << look;
  }
  EXPECT_GT(rests, 1'000);
  for (const Program& program : programs_)
    EXPECT_EQ(*rested_.engine().GpuTotal(program.id), *never_.engine().GpuTotal(program.id));
}

std::vector<std::string_view> Policies() {
  std::vector<std::string_view> names;
  for (const core::PolicyEntry& entry : core::PolicyTable()) names.push_back(entry.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Policies, SameDecisions, ::testing::ValuesIn(Policies()), [](const auto& tested) {
  std::string name(tested.param);
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace weir::engine
