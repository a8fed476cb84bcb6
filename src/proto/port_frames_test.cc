// SPDX-License-Identifier: Apache-2.0
#include "proto/port_frames.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/harness/golden.h"

namespace weir::proto::port {
namespace {

template <typename T>
void AddBytesOf(std::vector<std::byte>& all, const T& record) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  all.insert(all.end(), bytes, bytes + sizeof record);
}

TEST(PortFrames, AreEncodedIntoTheirGoldenBytes) {
  std::vector<std::byte> all;
  AddBytesOf(all, FrameHeader{.kind = static_cast<std::uint16_t>(Kind::kHello), .value = kHelloBytes});
  AddBytesOf(all, Hello{.epoch = 0x1122334455667788,
                        .echo = 0x0102030405060708,
                        .side = static_cast<std::uint16_t>(Side::kHost),
                        .room = 0x00000800});
  std::uint16_t kind = 2;
  for (const std::uint32_t value : {0U, kDataBytesMax, kWindowBytes, 0U})
    AddBytesOf(all, FrameHeader{.kind = kind++, .stream = 0x01020304, .value = value});
  AddBytesOf(all, FrameHeader{.kind = kind, .value = 0x01020304});
  testing::ExpectGolden("port_v1.hex", all);
}

TEST(PortFrames, OnlyFramesArePlausible) {
  const auto plausible = [](std::uint16_t kind, std::uint32_t stream, std::uint32_t value) {
    return Plausible(FrameHeader{.kind = kind, .stream = stream, .value = value});
  };
  EXPECT_TRUE(plausible(1, 0, 24) && plausible(1, 0, 64) && plausible(2, 1, 0) && plausible(3, 1, 1));
  EXPECT_TRUE(plausible(3, 0xFFFFFFFF, kDataBytesMax) && plausible(4, 1, kWindowBytes) && plausible(5, 1, 0));
  EXPECT_FALSE(plausible(1, 1, 24) || plausible(1, 0, 23) || plausible(1, 0, 65)) << "a Hello";
  EXPECT_FALSE(plausible(2, 0, 0) || plausible(2, 1, 1) || plausible(5, 0, 0) || plausible(5, 1, 1)) << "open, close";
  EXPECT_FALSE(plausible(3, 0, 1) || plausible(3, 1, 0) || plausible(3, 1, kDataBytesMax + 1)) << "data";
  EXPECT_FALSE(plausible(4, 0, 1) || plausible(4, 1, 0) || plausible(4, 1, kWindowBytes + 1)) << "credit";
  EXPECT_TRUE(plausible(6, 0, 1));
  EXPECT_FALSE(plausible(6, 1, 1) || plausible(6, 0, 0)) << "read";
  EXPECT_FALSE(plausible(0, 1, 0) || plausible(7, 1, 0) || plausible(0xFFFF, 1, 0)) << "no kind";
  EXPECT_FALSE(Plausible(FrameHeader{.magic = kMagic + 1, .kind = 2, .stream = 1}));
  EXPECT_FALSE(Plausible(FrameHeader{.kind = 2, .reserved = 1, .stream = 1}));
}

TEST(PortFrames, ZerosAreNotAFrame) {
  FrameHeader zeros{.magic = 0};
  EXPECT_FALSE(Plausible(zeros)) << "what goes before a Hello is no frame, or it would be taken for one";
  for (const std::uint32_t room : {0U, kRoomBytesMin, kTerminalRoomBytes}) {
    EXPECT_GE(FillerBytesFor(room), DataBytesMaxFor(room) + kTrailerBytes) << "the longest frame is over behind it";
    if (room == 0) continue;
    EXPECT_LT(FillerBytesFor(room) + kFrameHeaderBytes + kHelloBytes, room) << "there is room for it";
  }
}

TEST(PortFrames, OnlyValidHellosArePlausible) {
  EXPECT_TRUE(Plausible(Hello{.epoch = 1}) && Plausible(Hello{.epoch = 1, .room = kTerminalRoomBytes}));
  EXPECT_FALSE(Plausible(Hello{}) || Plausible(Hello{.epoch = 1, .version = 0}));
  EXPECT_FALSE(Plausible(Hello{.epoch = 1, .room = kRoomBytesMin - 1}) || Plausible(Hello{.epoch = 1, .room = ~0U}));
}

}  // namespace
}  // namespace weir::proto::port
