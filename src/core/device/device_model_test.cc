// SPDX-License-Identifier: Apache-2.0
#include "core/device/device_model.h"

#include <gtest/gtest.h>

namespace weir::core {
namespace {

constexpr Instant At(Duration since_start) { return InstantFromNs(1'000'000) + since_start; }

DeviceCommand Kernel(std::uint32_t client, Duration work, std::uint32_t units = 0) {
  return {.client = client, .queue = client, .work = work, .units = units};
}

DeviceCommand Copy(std::uint32_t queue, EngineKind engine, Bytes bytes) {
  return {.client = queue, .queue = queue, .engine = engine, .bytes = bytes};
}

class Player {
 public:
  explicit Player(const DeviceConfig& config) : device(config) {}
  void Submit(Duration at, DeviceCommand command) {
    device.Advance(At(at), completed);
    EXPECT_TRUE(device.Submit(At(at), command));
  }
  void Finish() { device.Advance(At(seconds(1000)), completed); }
  [[nodiscard]] Duration EndOf(std::size_t i) const { return completed.at(i).ended - At({}); }
  [[nodiscard]] std::uint32_t ClientOf(std::size_t i) const { return completed.at(i).command.client; }

  DeviceModel device;
  std::vector<DeviceCompletion> completed;
};

TEST(DeviceModel, FifoRunsEachCommandToItsEndInOrderOfSubmission) {
  Player player({});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(500)));
  player.Submit(milliseconds(1), Kernel(2, milliseconds(2)));
  player.Submit(milliseconds(2), Kernel(1, milliseconds(3)));
  player.Finish();
  ASSERT_EQ(player.completed.size(), 3U);
  EXPECT_EQ(player.EndOf(0), milliseconds(500));
  EXPECT_EQ(player.EndOf(1), milliseconds(502));
  EXPECT_EQ(player.EndOf(2), milliseconds(505));
  EXPECT_EQ(player.ClientOf(1), 2U);
  EXPECT_EQ(player.device.Busy(EngineKind::kCompute, At(seconds(1000))), milliseconds(505));
}

TEST(DeviceModel, TimeSlicePreemptsALongKernel) {
  Player player({.arbitration = Arbitration::kTimeSlice, .slice = milliseconds(2)});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(500)));
  player.Submit(milliseconds(1), Kernel(2, milliseconds(3)));
  player.Finish();
  ASSERT_EQ(player.completed.size(), 2U);
  EXPECT_EQ(player.ClientOf(0), 2U);
  EXPECT_EQ(player.EndOf(0), milliseconds(7));  // 2 ms of client 1, 2 of client 2, 2 of client 1, 1 of client 2
  EXPECT_EQ(player.EndOf(1), milliseconds(503));
  EXPECT_EQ(player.completed[0].busy, milliseconds(3));
  EXPECT_EQ(player.completed[1].busy, milliseconds(500));
  EXPECT_EQ(player.completed[0].began - At({}), milliseconds(2));  // its span includes a turn of client 1
}

TEST(DeviceModel, ATurnGoesToAClientWhateverItsNumber) {
  for (const std::uint32_t other : {0U, 1U, 3U, 7U}) {
    Player player({.arbitration = Arbitration::kTimeSlice, .slice = milliseconds(2)});
    player.Submit(milliseconds(0), Kernel(2, milliseconds(500)));
    player.Submit(milliseconds(1), Kernel(other, milliseconds(3)));
    player.Finish();
    EXPECT_EQ(player.ClientOf(0), other);
    EXPECT_EQ(player.EndOf(0), milliseconds(7));
  }
}

TEST(DeviceModel, AClientAloneIsNotPreempted) {
  Player player({.arbitration = Arbitration::kTimeSlice, .switch_cost = milliseconds(1)});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(50)));
  player.Submit(milliseconds(0), Kernel(1, milliseconds(50)));
  player.Finish();
  EXPECT_EQ(player.EndOf(1), milliseconds(101));
  EXPECT_EQ(player.device.Switching(EngineKind::kCompute), milliseconds(1));
}

TEST(DeviceModel, EachSwitchBetweenClientsCostsTime) {
  Player player({.arbitration = Arbitration::kTimeSlice, .slice = milliseconds(2), .switch_cost = microseconds(100)});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(4)));
  player.Submit(milliseconds(0), Kernel(2, milliseconds(4)));
  player.Finish();
  EXPECT_EQ(player.EndOf(1), milliseconds(8) + 4 * microseconds(100));
  EXPECT_EQ(player.device.Busy(EngineKind::kCompute, At(seconds(1))), milliseconds(8));
}

TEST(DeviceModel, ConcurrentKernelsShareUnits) {
  Player player({.arbitration = Arbitration::kConcurrent, .units = 10});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(10), 4));
  player.Submit(milliseconds(0), Kernel(2, milliseconds(10), 4));
  player.Submit(milliseconds(0), Kernel(3, milliseconds(10), 4));  // two units are left for it
  player.Finish();
  ASSERT_EQ(player.completed.size(), 3U);
  EXPECT_EQ(player.EndOf(0), milliseconds(10));
  EXPECT_EQ(player.EndOf(1), milliseconds(10));
  EXPECT_EQ(player.EndOf(2), milliseconds(15));  // half of its work, then all four units
  // The time of the engine is charged by units: 4, 4 and 2 of 10 ms in ten, then 5 ms alone.
  EXPECT_EQ(player.device.BusyOf(1, EngineKind::kCompute, At(seconds(1))), milliseconds(4));
  EXPECT_EQ(player.device.BusyOf(3, EngineKind::kCompute, At(seconds(1))), milliseconds(7));
  EXPECT_EQ(player.device.Busy(EngineKind::kCompute, At(seconds(1))), milliseconds(15));
}

TEST(DeviceModel, AKernelWaitsForTheCopyBeforeItInItsQueue) {
  Player player({.memory = MiB(100), .in_bytes_per_s = 1'000'000'000, .link_latency = microseconds(10)});
  player.Submit(milliseconds(0), Copy(1, EngineKind::kCopyIn, Bytes{5'000'000}));
  player.Submit(milliseconds(0), Kernel(1, milliseconds(1)));
  player.Submit(milliseconds(0), Kernel(2, milliseconds(1)));  // not held back by the copy
  player.Finish();
  EXPECT_EQ(player.ClientOf(0), 2U);
  EXPECT_EQ(player.EndOf(0), milliseconds(1));
  EXPECT_EQ(player.EndOf(1), milliseconds(5) + microseconds(10));
  EXPECT_EQ(player.EndOf(2), milliseconds(6) + microseconds(10));
}

TEST(DeviceModel, CopiesInBothDirectionsRunBesideKernels) {
  Player player({.in_bytes_per_s = 1'000'000'000, .out_bytes_per_s = 1'000'000'000});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(5)));
  player.Submit(milliseconds(0), Copy(2, EngineKind::kCopyIn, Bytes{5'000'000}));
  player.Submit(milliseconds(0), Copy(3, EngineKind::kCopyOut, Bytes{5'000'000}));
  player.Finish();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(player.EndOf(i), milliseconds(5));
}

TEST(DeviceModel, AFullQueueRefusesACommand) {
  DeviceModel device({.queue_depth = 2});
  EXPECT_TRUE(device.Submit(At({}), Kernel(1, milliseconds(1))));
  EXPECT_TRUE(device.Submit(At({}), Kernel(1, milliseconds(1))));
  EXPECT_FALSE(device.Submit(At({}), Kernel(1, milliseconds(1))));
  EXPECT_TRUE(device.Submit(At({}), Kernel(2, milliseconds(1))));
}

TEST(DeviceModel, NothingProgressesDuringAStall) {
  Player player({});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(10)));
  player.device.Advance(At(milliseconds(4)), player.completed);
  player.device.Stall(At(milliseconds(4)), At(milliseconds(100)));
  player.Finish();
  EXPECT_EQ(player.EndOf(0), milliseconds(106));
  EXPECT_EQ(player.device.Busy(EngineKind::kCompute, At(seconds(1))), milliseconds(10));
}

TEST(DeviceModel, AResetCompletesEverythingAsLost) {
  Player player({});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(10)));
  player.Submit(milliseconds(0), Kernel(1, milliseconds(10)));
  player.device.Advance(At(milliseconds(4)), player.completed);
  player.device.Reset(At(milliseconds(4)), player.completed);
  ASSERT_EQ(player.completed.size(), 2U);
  EXPECT_TRUE(player.completed[0].lost);
  EXPECT_EQ(player.completed[0].busy, milliseconds(4));
  EXPECT_EQ(player.device.NextEvent(), DeviceModel::kNoEvent);
  EXPECT_TRUE(player.device.Submit(At(milliseconds(5)), Kernel(1, milliseconds(1))));
}

TEST(DeviceModel, ALostDeviceAcceptsNothing) {
  Player player({.memory = MiB(64)});
  player.device.Lose(At({}), player.completed);
  EXPECT_FALSE(player.device.Submit(At({}), Kernel(1, milliseconds(1))));
  EXPECT_FALSE(player.device.Allocate(1, MiB(1)));
}

TEST(DeviceModel, ARemovedClientFreesTheEngineAndItsMemoryAtOnce) {
  Player player({.memory = MiB(64)});
  EXPECT_TRUE(player.device.Allocate(1, MiB(64)));
  player.Submit(milliseconds(0), Kernel(1, seconds(100)));
  player.Submit(milliseconds(1), Kernel(2, milliseconds(1)));
  player.device.Remove(At(milliseconds(10)), 1);
  EXPECT_TRUE(player.device.Allocate(2, MiB(64)));
  player.Finish();
  ASSERT_EQ(player.completed.size(), 1U);
  EXPECT_EQ(player.EndOf(0), milliseconds(11));
  EXPECT_EQ(player.device.BusyOfRemoved(EngineKind::kCompute), milliseconds(10));
}

TEST(DeviceModel, MemoryCanBeExhausted) {
  DeviceModel device({.memory = MiB(100)});
  EXPECT_TRUE(device.Allocate(1, MiB(60)));
  EXPECT_FALSE(device.Allocate(2, MiB(41)));
  EXPECT_FALSE(device.Allocate(2, Bytes{~std::uint64_t{0}}));
  EXPECT_TRUE(device.Allocate(2, MiB(40)));
  device.Free(1, MiB(200));  // no more than it holds
  EXPECT_EQ(device.memory_used(), MiB(40));
}

TEST(DeviceModel, TheClockIsLowAfterAPause) {
  Player player({.ramp = {.idle = milliseconds(10), .rise = milliseconds(4), .low_permille = 500}});
  player.Submit(milliseconds(20), Kernel(1, milliseconds(3)));  // 4 ms at half the clock, 1 ms at the full clock
  player.Submit(milliseconds(26), Kernel(1, milliseconds(3)));  // The pause was too short to lower the clock.
  player.Finish();
  EXPECT_EQ(player.EndOf(0), milliseconds(25));
  EXPECT_EQ(player.EndOf(1), milliseconds(29));
}

TEST(DeviceModel, ForgetDropsWhatHasNotBegun) {
  Player player({});
  player.Submit(milliseconds(0), Kernel(1, milliseconds(2)));
  player.Submit(milliseconds(0), Kernel(1, milliseconds(2)));
  player.device.Forget(1);
  EXPECT_EQ(player.device.Outstanding(1), 1U);
  EXPECT_TRUE(player.device.Runs(1));
  player.Finish();
  EXPECT_EQ(player.completed.size(), 1U);
}

TEST(DeviceModel, AStartDelayHoldsTheEngine) {
  Player player({});
  player.device.SetStartDelay([](const DeviceCommand&) { return milliseconds(5); });
  player.Submit(milliseconds(0), Kernel(1, milliseconds(1)));
  player.Submit(milliseconds(0), Kernel(1, milliseconds(1)));
  player.Finish();
  EXPECT_EQ(player.EndOf(1), milliseconds(12));
  EXPECT_EQ(player.device.Busy(EngineKind::kCompute, At(seconds(1))), milliseconds(2));
}

}  // namespace
}  // namespace weir::core
