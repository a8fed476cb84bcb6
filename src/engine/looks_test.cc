// SPDX-License-Identifier: Apache-2.0
// When the daemon polls: for what agents are asked to ring the doorbell, and the effect of late polls.
#include <gtest/gtest.h>

#include "engine/node_engine.h"

namespace weir::engine {
namespace {

/// Two attached vGPUs under proportional-share, whose gates are sampled by hand.
class Looks : public ::testing::Test {
 protected:
  Looks() {
    for (VgpuId* id : {&first_, &second_}) {
      Do(CreateVgpu{id == &first_ ? "first" : "second", "", {}, {}});
      *id = actions_.created;
      Note();
    }
    Do(SetPolicy{"", "proportional-share", {}});
    for (const VgpuId id : {first_, second_}) Do(ProcessAttached{id, ProcessId{id.value}, true});
  }
  void Do(const Event& event) {
    ASSERT_TRUE(engine_.Step(now_, event, actions_).has_value());
    Note();
  }
  /// Records the allowances that the engine expects, and which vGPUs are asked to ring.
  void Note() {
    for (const AllowanceGrant& grant : actions_.grant) allowance_[grant.vgpu] += grant.delta_ns;
    for (const RingAtEnd& ring : actions_.ring_at_end) rings_[ring.vgpu] = ring.wanted;
    woken_.clear();
    for (const AllowanceGrant& grant : actions_.grant)
      if (grant.wake) woken_.insert(grant.vgpu);
  }
  struct Counts {
    std::uint32_t waiting = 0, in_flight = 0;
  };
  void Look(Counts first, Counts second) {
    const GateSample samples[] = {
        {.vgpu = first_, .allowance_ns = allowance_[first_], .waiting = first.waiting, .in_flight = first.in_flight},
        {.vgpu = second_,
         .allowance_ns = allowance_[second_],
         .waiting = second.waiting,
         .in_flight = second.in_flight}};
    Do(GatesSampled{samples, {}});
  }
  bool RingsAtEnd(VgpuId id) { return rings_[id]; }

  Instant now_ = InstantFromNs(1'000'000'000);
  NodeEngine engine_{{{"card", "gpu", {}}}};
  Actions actions_;
  VgpuId first_, second_;
  std::map<VgpuId, std::int64_t> allowance_;
  std::map<VgpuId, bool> rings_;
  std::set<VgpuId> woken_;  // by the last step
};

TEST_F(Looks, AnAgentRingsAtTheEndOfWorkThatAnotherVgpuWaitsFor) {
  Look({.in_flight = 1}, {.waiting = 1});
  EXPECT_TRUE(RingsAtEnd(first_));
  EXPECT_FALSE(RingsAtEnd(second_)) << "it has no work in flight";
  Look({.in_flight = 1}, {});
  EXPECT_FALSE(RingsAtEnd(first_)) << "nobody waits";
  Look({.waiting = 1, .in_flight = 1}, {});
  EXPECT_FALSE(RingsAtEnd(first_)) << "only its own process waits";
}

TEST_F(Looks, AWaiterThatCouldNotRunIsNoReasonToRing) {
  Do(PauseVgpu{second_, true});
  Look({.in_flight = 1}, {.waiting = 1});
  EXPECT_FALSE(RingsAtEnd(first_));
  Do(PauseVgpu{second_, false});
  Look({.in_flight = 1}, {.waiting = 1});
  EXPECT_TRUE(RingsAtEnd(first_));
}

TEST_F(Looks, AThreadThatWaitsBesideAHungOneIsWokenWhenTheCapAllowsIt) {
  Do(SetPolicy{"", "none", {}});
  Do(SetVgpu{first_, {.cap = Share::FromFraction(0.2)}});
  now_ += milliseconds(50);
  Look({.in_flight = 1}, {});
  allowance_[first_] -= 200'000'000;  // the reservation of the hung thread
  const Instant start = now_;
  bool stuck = false;
  while (!woken_.contains(first_) && now_ < start + seconds(2)) {
    Look({.waiting = 1, .in_flight = 1}, {});
    stuck = stuck || engine_.Vgpu(now_, first_)->state != VgpuState::kWaiting;
    ASSERT_FALSE(actions_.asleep);
    now_ = std::min(actions_.look_again, now_ + milliseconds(10));
  }
  EXPECT_TRUE(stuck);
  EXPECT_NEAR(SecondsOf(now_ - start), 1, 0.1) << "200 ms at a fifth of the device";
  Look({.in_flight = 1}, {});
  EXPECT_FALSE(woken_.contains(first_)) << "no thread waits";
}

TEST_F(Looks, AfterALateLookAllowancesLastLonger) {
  Look({.waiting = 1}, {.waiting = 1});
  const std::int64_t in_time = allowance_[first_] + allowance_[second_];
  now_ = actions_.look_again + milliseconds(8);
  Look({.waiting = 1}, {.waiting = 1});
  EXPECT_EQ(allowance_[first_] + allowance_[second_], in_time + 8'000'000);
}

}  // namespace
}  // namespace weir::engine
