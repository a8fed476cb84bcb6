// SPDX-License-Identifier: Apache-2.0
#include "core/device/faulty_device.h"

#include <gtest/gtest.h>

namespace weir::core::faulty_device_test {
namespace {

using enum DeviceFault::Kind;
using enum DeviceFault::State;
using enum FaultyDevice::Answer;

constexpr Instant kStart = InstantFromNs(5'000'000'000);

class Player {
 public:
  explicit Player(std::vector<DeviceFault> faults) : device({.memory = MiB(64)}, faults) {}
  FaultyDevice::Answer Give(Duration at, std::uint32_t client, Duration work) {
    PlayTo(at);
    return device.Submit(now, {.client = client, .queue = client, .work = work}, completed);
  }
  void PlayTo(Duration at) {
    now = kStart + at;
    device.Advance(now, completed);
  }
  [[nodiscard]] Duration EndOf(std::size_t i) const { return completed.at(i).ended - kStart; }
  [[nodiscard]] const FaultyDevice::Status& fault() const { return device.faults().front(); }

  FaultyDevice device;
  Instant now = kStart;
  std::vector<DeviceCompletion> completed;
};

TEST(FaultyDevice, IsLostWithTheCommandAfterSoMany) {
  Player player({{.kind = kLost, .after = 2}});
  EXPECT_EQ(player.Give({}, 1, milliseconds(1)), kTaken);
  EXPECT_EQ(player.Give(milliseconds(5), 1, milliseconds(1)), kTaken);
  EXPECT_EQ(player.fault().state, kToCome);
  EXPECT_EQ(player.Give(milliseconds(5), 2, milliseconds(1)), kRefused);
  ASSERT_EQ(player.completed.size(), 2U);
  EXPECT_FALSE(player.completed[0].lost);
  EXPECT_TRUE(player.completed[1].lost);
  EXPECT_EQ(player.EndOf(1), milliseconds(5));
  EXPECT_EQ(player.fault().state, kInEffect);
  EXPECT_EQ(player.fault().hit, 1U);
  EXPECT_EQ(player.device.Allocate(player.now, 3, MiB(1)), kRefused);
  EXPECT_EQ(player.device.NextEvent(), DeviceModel::kNoEvent);
}

TEST(FaultyDevice, IsLostAtATimeAfterItsFirstCommand) {
  Player player({{.kind = kLost, .at = milliseconds(10)}});
  EXPECT_EQ(player.device.NextEvent(), DeviceModel::kNoEvent) << "it begins with the first command";
  EXPECT_EQ(player.Give(milliseconds(100), 1, seconds(1)), kTaken);
  EXPECT_EQ(player.device.NextEvent(), kStart + milliseconds(110));
  player.PlayTo(milliseconds(200));
  ASSERT_EQ(player.completed.size(), 1U);
  EXPECT_EQ(player.EndOf(0), milliseconds(110));
  EXPECT_EQ(player.device.model().Busy(EngineKind::kCompute, player.now), milliseconds(10));
}

TEST(FaultyDevice, AResetRefusesThoseWhoWereThereUntilTheyHaveLeft) {
  Player player({{.kind = kReset, .at = milliseconds(10)}});
  EXPECT_EQ(player.Give({}, 1, milliseconds(1)), kTaken);
  EXPECT_EQ(player.device.Allocate(player.now, 2, MiB(1)), kTaken);
  player.PlayTo(milliseconds(20));
  EXPECT_EQ(player.fault().state, kOver);
  EXPECT_EQ(player.Give(milliseconds(20), 1, milliseconds(1)), kRefused) << "also without a command under way";
  EXPECT_EQ(player.Give(milliseconds(20), 2, milliseconds(1)), kRefused);
  EXPECT_EQ(player.Give(milliseconds(20), 3, milliseconds(1)), kTaken);
  player.device.Remove(player.now, 1);
  EXPECT_EQ(player.Give(milliseconds(20), 1, milliseconds(1)), kTaken);
}

TEST(FaultyDevice, AHangEnds) {
  Player player({{.kind = kHang, .after = 1, .lasts = seconds(2)}});
  EXPECT_EQ(player.Give({}, 1, milliseconds(4)), kTaken);
  EXPECT_EQ(player.Give(milliseconds(1), 2, milliseconds(4)), kTaken);
  player.PlayTo(milliseconds(2'000));
  EXPECT_TRUE(player.completed.empty());
  EXPECT_EQ(player.fault().state, kInEffect);
  player.PlayTo(milliseconds(3'000));
  ASSERT_EQ(player.completed.size(), 2U);
  EXPECT_EQ(player.EndOf(0), milliseconds(2'004));
  EXPECT_EQ(player.fault().state, kOver);
}

TEST(FaultyDevice, AHangWithoutAnEndEndsWithAReset) {
  Player player({{.kind = kHang, .after = 0}, {.kind = kReset, .at = seconds(3)}});
  EXPECT_EQ(player.Give({}, 1, milliseconds(1)), kTaken);
  player.PlayTo(seconds(2));
  EXPECT_TRUE(player.completed.empty());
  player.PlayTo(seconds(4));
  ASSERT_EQ(player.completed.size(), 1U);
  EXPECT_TRUE(player.completed[0].lost);
  EXPECT_EQ(player.fault().state, kOver);
  EXPECT_EQ(player.Give(seconds(5), 2, milliseconds(1)), kTaken);
  player.PlayTo(seconds(6));
  EXPECT_EQ(player.EndOf(1), milliseconds(5'001));
}

TEST(FaultyDevice, SoManyCommandsAreSlow) {
  Player player({{.kind = kSlow, .after = 1, .count = 2, .extra = seconds(1)}});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(player.Give({}, 1, milliseconds(1)), kTaken);
  player.PlayTo(seconds(10));
  ASSERT_EQ(player.completed.size(), 4U);
  EXPECT_EQ(player.completed[0].busy, milliseconds(1));
  EXPECT_EQ(player.completed[1].busy, milliseconds(1'001));
  EXPECT_EQ(player.completed[2].busy, milliseconds(1'001));
  EXPECT_EQ(player.completed[3].busy, milliseconds(1));
  EXPECT_EQ(player.fault().state, kOver);
  EXPECT_EQ(player.fault().hit, 2U);
}

TEST(FaultyDevice, SoManyAllocationsFail) {
  Player player({{.kind = kNoMemory, .after = 1, .count = 2}});
  const auto ask = [&](Bytes bytes) { return player.device.Allocate(player.now, 1, bytes); };
  EXPECT_EQ(ask(MiB(1)), kTaken);
  EXPECT_EQ(ask(Bytes{}), kTaken) << "of nothing: not counted";
  EXPECT_EQ(ask(MiB(1)), kFull);
  EXPECT_EQ(ask(Bytes{}), kTaken);
  EXPECT_EQ(ask(MiB(1)), kFull);
  EXPECT_EQ(ask(MiB(1)), kTaken);
  EXPECT_EQ(player.device.model().memory_used(), MiB(2));
}

TEST(FaultyDevice, AnAccountIsNotAnsweredForATime) {
  Player player({{.kind = kNoAccount, .at = seconds(1), .lasts = seconds(2)}});
  EXPECT_EQ(player.Give({}, 1, milliseconds(1)), kTaken);
  EXPECT_TRUE(player.device.AnswersAccount());
  player.PlayTo(seconds(1));
  EXPECT_FALSE(player.device.AnswersAccount());
  EXPECT_EQ(player.fault().hit, 1U);
  player.PlayTo(seconds(3));
  EXPECT_TRUE(player.device.AnswersAccount());
}

}  // namespace
}  // namespace weir::core::faulty_device_test
