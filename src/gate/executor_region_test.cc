// SPDX-License-Identifier: Apache-2.0
// A vGPU's programs and its executors have regions of their own: whatever its owner writes into the one, the other one
// and the charges of the executors are not affected.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "gate/host.h"
#include "platform/clock.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/temp_folder.h"

namespace weir::gate {
namespace {

using weir::testing::RawClient;
using weir::testing::TempFolder;

constexpr std::int64_t kMs = 1'000'000;

/// A gate with two processes: a program and an executor.
class TwoRegions {
 public:
  TwoRegions() : TwoRegions([](VgpuGate&) {}) {}
  /// `between`: before the executor attaches.
  explicit TwoRegions(const std::function<void(VgpuGate&)>& between) {
    Attach(program_, {});
    between(*gate_);
    Attach(executor_, {.executor_pid = ::getpid()});
  }
  VgpuGate& gate() { return *gate_; }
  proto::VgpuRegion& program() { return program_.vgpu(); }
  proto::VgpuRegion& executor() { return executor_.vgpu(); }

 private:
  void Attach(RawClient& client, const Places& places) {
    bool attached = false;
    std::thread asks([&] { attached = client.Attach(); });
    WEIR_CHECK(platform::WaitReadable(gate_->listener(), 60'000));
    auto connection = gate_->Accept();
    WEIR_CHECK(connection.has_value() && platform::WaitReadable(connection->get(), 60'000));
    WEIR_CHECK(gate_->Welcome(std::move(*connection), ProcessId{++last_}, places).has_value());
    asks.join();
    WEIR_CHECK(attached);
  }

  TempFolder folder_;
  std::unique_ptr<VgpuGate> gate_ = *VgpuGate::Make(VgpuId{1}, folder_ / "s", ::getuid(), {}, platform::NowNs());
  std::uint64_t last_ = 0;
  RawClient program_{folder_ / "s"}, executor_{folder_ / "s"};
};

TEST(ExecutorRegion, HoldsTheSameWordsAndIsAnotherOne) {
  TwoRegions two;
  two.gate().Publish({.mode = proto::GateMode::kGated, .cap_ppm = 7, .memory_limit_slots = 5, .memory_elastic = true});
  two.gate().Beat(42);
  two.gate().WantDoorbell(proto::kRingAtEntry);
  ASSERT_NE(&two.program(), &two.executor());
  for (proto::VgpuRegion* words : {&two.program(), &two.executor()}) {
    EXPECT_EQ(words->mode, static_cast<std::uint32_t>(proto::GateMode::kGated));
    EXPECT_EQ(words->cap_ppm, 7U);
    EXPECT_EQ(words->memory_limit_slots, 5U);
    EXPECT_EQ(words->memory_order, two.gate().memory_order());
    EXPECT_EQ(words->heartbeat_ns, 42);
    EXPECT_EQ(words->doorbell_wanted, proto::kRingAtEntry);
    words->mode = 17;
  }
  two.program().heartbeat_ns = 0;
  two.program().memory_limit_slots = 0;
  two.program().memory_here_slots = 100;
  EXPECT_EQ(two.executor().heartbeat_ns, 42);
  EXPECT_EQ(two.executor().memory_limit_slots, 5U);
  EXPECT_EQ(two.executor().memory_here_slots, 0U);
}

TEST(ExecutorRegion, BeginsWithWhatWasPublishedAndGrantedBefore) {
  TwoRegions two([](VgpuGate& gate) {
    gate.Publish({.mode = proto::GateMode::kGated, .memory_limit_slots = 5});
    gate.Grant(8 * kMs);
    gate.WantDoorbell(proto::kRingAtEnd);
    gate.Beat(42);
  });
  EXPECT_EQ(two.executor().mode, static_cast<std::uint32_t>(proto::GateMode::kGated));
  EXPECT_EQ(two.executor().memory_limit_slots, 5U);
  EXPECT_EQ(two.executor().memory_order, two.gate().memory_order());
  EXPECT_EQ(two.executor().allowance_ns, 8 * kMs);
  EXPECT_EQ(two.executor().doorbell_wanted, proto::kRingAtEnd);
  EXPECT_EQ(two.executor().heartbeat_ns, 42);
  EXPECT_EQ(two.gate().AllowanceNs(), 8 * kMs);
}

TEST(ExecutorRegion, IsMendedWithAHeartbeat) {
  TwoRegions two;
  two.gate().Publish({.mode = proto::GateMode::kGated, .cap_ppm = 7, .memory_limit_slots = 5});
  two.gate().WantDoorbell(proto::kRingAtEntry);
  const std::uint32_t order = two.gate().memory_order();
  two.gate().Beat(42);
  EXPECT_EQ(two.gate().memory_order(), order) << "nothing was damaged";
  std::memset(static_cast<void*>(&two.executor()), 0xFF, offsetof(proto::VgpuRegion, wake_word));
  two.gate().Beat(43);
  EXPECT_EQ(proto::HeaderFault(two.executor().header, proto::kVgpuRegionMagic, proto::kVgpuRegionBytes), nullptr);
  EXPECT_EQ(two.executor().mode, static_cast<std::uint32_t>(proto::GateMode::kGated));
  EXPECT_EQ(two.executor().cap_ppm, 7U);
  EXPECT_EQ(two.executor().memory_limit_slots, 5U);
  EXPECT_EQ(two.executor().doorbell_wanted, proto::kRingAtEntry);
  EXPECT_EQ(two.executor().heartbeat_ns, 43);
  EXPECT_EQ(two.gate().memory_order(), order + 2) << "an executor may have read a false order";
  EXPECT_EQ(two.executor().memory_order, order + 2);
  EXPECT_EQ(two.program().memory_order, order + 2);
}

TEST(ExecutorRegion, WhatIsSpentOfOneIsTakenFromTheOther) {
  TwoRegions two;
  two.gate().Grant(10 * kMs);
  EXPECT_EQ(two.executor().allowance_ns, 10 * kMs);
  two.executor().allowance_ns -= 4 * kMs;
  two.program().allowance_ns -= 3 * kMs;
  EXPECT_EQ(two.gate().AllowanceNs(), 3 * kMs);
  EXPECT_EQ(two.executor().allowance_ns, 3 * kMs);
  EXPECT_EQ(two.program().allowance_ns, 3 * kMs);
  two.program().allowance_ns += 2 * kMs;  // less was used than was reserved
  EXPECT_EQ(two.gate().AllowanceNs(), 5 * kMs);
  EXPECT_EQ(two.executor().allowance_ns, 5 * kMs);
  EXPECT_EQ(two.gate().TakeForgedAllowances(), 0U);
}

TEST(ExecutorRegion, AProgramThatForgesAnAllowanceTakesNothingBack) {
  TwoRegions two;
  two.gate().Grant(10 * kMs);
  for (const std::int64_t forged : {1'000 * kMs, 86'400'000 * kMs, std::numeric_limits<std::int64_t>::max()}) {
    two.executor().allowance_ns -= kMs;
    const std::int64_t left = two.executor().allowance_ns;
    two.program().allowance_ns = forged;
    EXPECT_EQ(two.gate().AllowanceNs(), left) << forged;
    EXPECT_EQ(two.program().allowance_ns, left) << forged;
    EXPECT_EQ(two.executor().allowance_ns, left) << forged;
  }
  EXPECT_EQ(two.gate().TakeForgedAllowances(), 3U);
}

TEST(ExecutorRegion, WhatProgramsSpentLongAgoIsNotTakenBack) {
  TwoRegions two;
  for (int i = 0; i < 100; ++i) {  // 100 s
    two.program().allowance_ns -= 1'000 * kMs;
    static_cast<void>(two.gate().AllowanceNs());
  }
  const std::int64_t before = two.gate().AllowanceNs();
  for (int i = 0; i < 100; ++i) {
    two.executor().allowance_ns -= 100 * kMs;
    two.program().allowance_ns += 100 * kMs;  // in steps that would each be plausible
    static_cast<void>(two.gate().AllowanceNs());
  }
  EXPECT_EQ(before - two.gate().AllowanceNs(), 100 * 100 * kMs - VgpuGate::kProgramsBackMaxNs);
}

TEST(ExecutorRegion, AKernelsChargeMayBeTakenBack) {
  TwoRegions two;
  for (int i = 0; i < 30; ++i) {
    two.executor().allowance_ns -= 1'000 * kMs;
    static_cast<void>(two.gate().AllowanceNs());
  }
  two.executor().allowance_ns += 29'000 * kMs;
  EXPECT_EQ(two.gate().AllowanceNs(), -1'000 * kMs);
}

TEST(ExecutorRegion, AForgedDebtHidesNoCharge) {
  TwoRegions two;
  two.gate().Grant(10 * kMs);
  for (const std::int64_t forged : {-90'000 * kMs, std::numeric_limits<std::int64_t>::min()}) {
    const std::int64_t before = two.gate().AllowanceNs();
    two.executor().allowance_ns -= 2 * kMs;
    two.program().allowance_ns = forged;
    const std::int64_t spent = before - two.gate().AllowanceNs();
    EXPECT_GE(spent, 2 * kMs) << forged;
    EXPECT_LE(spent, VgpuGate::kSpentMaxNs + 2 * kMs) << forged;
  }
}

// Agents that keep to the protocol: what is left is what was granted, minus what was spent of either region.
TEST(ExecutorRegion, LawChargesAddUp) {
  EXPECT_TRUE(rc::check([] {
    TwoRegions two;
    std::int64_t granted = 0, spent = 0;
    std::int64_t reserved[2] = {0, 0};
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6))) {
      const auto amount = static_cast<std::int64_t>(*rc::gen::inRange(1, 1'000'000));
      const int which = step % 2;
      proto::VgpuRegion& words = which == 0 ? two.program() : two.executor();
      if (step < 2) {  // reserves
        words.allowance_ns -= amount;
        reserved[which] += amount;
        spent += amount;
      } else if (step < 4) {  // gives a part of it back
        const std::int64_t back = std::min(amount, reserved[which]);
        words.allowance_ns += back;
        reserved[which] -= back;
        spent -= back;
      } else if (step == 4) {
        two.gate().Grant(amount);
        granted += amount;
      } else {
        RC_ASSERT(two.gate().AllowanceNs() == granted - spent);
        RC_ASSERT(two.program().allowance_ns.load() == two.executor().allowance_ns.load());
      }
    }
    RC_ASSERT(two.gate().AllowanceNs() == granted - spent);
    RC_ASSERT(two.gate().TakeForgedAllowances() == 0U);
  }));
}

}  // namespace
}  // namespace weir::gate
