// SPDX-License-Identifier: Apache-2.0
#include "core/partition/room.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace weir::core {
namespace {

constexpr Instant kRoomBegin = InstantFromNs(1'000'000'000);
constexpr ProcessId kOwn{1};
constexpr NodeId kOneAsker{1}, kOtherAsker{2};

TEST(RoomKeeper, OffersFreeMemoryAndItsThreadCount) {
  DeviceUsage usage(MiB(100));
  usage.Allocated(kOwn, MiB(60));
  usage.Launched(kOwn, 640);
  RoomKeeper keeper;
  EXPECT_FALSE(keeper.Ask(kRoomBegin, {kOneAsker, 1, MiB(41)}, usage));
  const auto offer = keeper.Ask(kRoomBegin, {kOneAsker, 2, MiB(40)}, usage);
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->number, 2u);
  EXPECT_EQ(offer->threads, 640u);
}

TEST(RoomKeeper, TwoRequestersNeverGetTheSameBytes) {
  const DeviceUsage usage(MiB(100));
  RoomKeeper keeper;
  ASSERT_TRUE(keeper.Ask(kRoomBegin, {kOneAsker, 1, MiB(60)}, usage));
  EXPECT_FALSE(keeper.Ask(kRoomBegin, {kOtherAsker, 1, MiB(60)}, usage));
  EXPECT_TRUE(keeper.Ask(kRoomBegin, {kOneAsker, 1, MiB(60)}, usage));  // a repeated question gets the same offer
  EXPECT_EQ(keeper.promised(), MiB(60));
  keeper.Drop(kOneAsker, 1);
  EXPECT_TRUE(keeper.Ask(kRoomBegin, {kOtherAsker, 2, MiB(60)}, usage));
}

TEST(RoomKeeper, AnOfferExpiresButAConfirmedOneWaitsForItsPart) {
  const DeviceUsage usage(MiB(100));
  RoomKeeper keeper({.hold = milliseconds(500), .begin = seconds(10)});
  ASSERT_TRUE(keeper.Ask(kRoomBegin, {kOneAsker, 1, MiB(60)}, usage));
  EXPECT_FALSE(keeper.Take(kRoomBegin + milliseconds(500), kOneAsker, 1, usage));
  ASSERT_TRUE(keeper.Ask(kRoomBegin, {kOneAsker, 2, MiB(60)}, usage));
  ASSERT_TRUE(keeper.Take(kRoomBegin + milliseconds(499), kOneAsker, 2, usage));
  EXPECT_TRUE(keeper.Take(kRoomBegin + milliseconds(600), kOneAsker, 2, usage));
  EXPECT_EQ(keeper.Begin(kRoomBegin + seconds(5), kOneAsker, 2), MiB(60));
  EXPECT_EQ(keeper.promised(), Bytes{});
  EXPECT_FALSE(keeper.Begin(kRoomBegin + seconds(5), kOneAsker, 2));
}

TEST(RoomKeeper, RefusesRoomThatItsOwnClientsHaveTaken) {
  DeviceUsage usage(MiB(100));
  RoomKeeper keeper;
  ASSERT_TRUE(keeper.Ask(kRoomBegin, {kOneAsker, 1, MiB(60)}, usage));
  usage.Allocated(kOwn, MiB(50));
  EXPECT_FALSE(keeper.Take(kRoomBegin, kOneAsker, 1, usage));
  EXPECT_EQ(keeper.promised(), Bytes{});
}

RC_GTEST_PROP(RoomKeeperLaw, RoomIsNeverPromisedTwice, ()) {
  DeviceUsage usage(Bytes{1000});
  RoomKeeper keeper({.hold = milliseconds(20), .begin = milliseconds(50)});
  Instant now = kRoomBegin;
  for (const int event : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 8))) {
    const NodeId asker{*rc::gen::inRange<std::uint64_t>(1, 4)};
    const auto number = *rc::gen::inRange<std::uint64_t>(1, 5);
    const Bytes size{*rc::gen::inRange<std::uint64_t>(1, 700)};
    switch (event) {
      case 0:
      case 1:
        if (const auto offer = keeper.Ask(now, {asker, number, size}, usage)) RC_ASSERT(offer->room == size);
        break;
      case 2: keeper.Take(now, asker, number, usage); break;
      case 3:
        if (const auto room = keeper.Begin(now, asker, number)) usage.Allocated(ProcessId{asker.value}, *room);
        break;
      case 4: keeper.Drop(asker, number); break;
      case 5: usage.Gone(ProcessId{asker.value}); break;
      case 6: keeper.Gone(asker); break;
      default: now += milliseconds(*rc::gen::inRange(0, 30)); break;
    }
    // The node's own clients allocate nothing here, so used and promised memory fit together.
    RC_ASSERT(keeper.promised().count + usage.used().count <= 1000u);
  }
  keeper.Expire(now + seconds(1));
  RC_ASSERT(keeper.promised() == Bytes{});
}

}  // namespace
}  // namespace weir::core
