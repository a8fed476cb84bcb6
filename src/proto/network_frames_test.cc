// SPDX-License-Identifier: Apache-2.0
#include "proto/network_frames.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/harness/golden.h"

namespace weir::proto::net {
namespace {

/// `unknown`: bytes of the message's last fields, which the sender does not know.
template <typename M>
void AddFrame(std::vector<std::byte>& all, Kind kind, const M& message, std::size_t unknown = 0) {
  std::vector<std::byte> bytes = cl::Encode(message);
  bytes.resize(bytes.size() - unknown);
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &size, sizeof size);
  const FrameHeader header{.bytes = size, .kind = static_cast<std::uint16_t>(kind)};
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  all.insert(all.end(), head, head + sizeof header);
  all.insert(all.end(), bytes.begin(), bytes.end());
}

TEST(NetworkFrames, AreEncodedIntoTheirGoldenBytes) {
  std::vector<std::byte> all;
  AddFrame(all, Kind::kHello, Hello{.magic = kMagic, .version = 1, .vgpu = "game", .program = "clinfo"});
  AddFrame(all, Kind::kWelcome,
           Welcome{.magic = kMagic,
                   .version = 1,
                   .arena_bytes = 0x1122334455667788,
                   .hello_came_ns = 0x0102030405060708,
                   .sent_ns = 0x1112131415161718,
                   .vgpu = "game",
                   .refusal = "no"},
           sizeof(Welcome::staging_bytes));
  const FrameHeader arena{.bytes = 0x01020304, .kind = 4, .offset = 0x1112131415161718};
  const auto* head = reinterpret_cast<const std::byte*>(&arena);
  all.insert(all.end(), head, head + sizeof arena);
  testing::ExpectGolden("network_v1.hex", all);
}

TEST(NetworkFrames, WhatVersion2AddedIsEncodedIntoItsGoldenBytes) {
  std::vector<std::byte> all;
  AddFrame(all, Kind::kMoveWanted, MoveWanted{.wanted = 1, .why = "full"});
  AddFrame(all, Kind::kMoveWanted, MoveWanted{});
  testing::ExpectGolden("network_v2_move_wanted.hex", all);
}

TEST(NetworkFrames, AWelcomeThatSaysWhereContentsAreStagedIsEncodedIntoItsGoldenBytes) {
  std::vector<std::byte> all;
  AddFrame(all, Kind::kWelcome,
           Welcome{.magic = kMagic,
                   .version = 2,
                   .arena_bytes = 0x1122334455667788,
                   .vgpu = "game",
                   .staging_bytes = 0x0122334455667788});
  testing::ExpectGolden("network_v2_staging.hex", all);
}

TEST(NetworkFrames, OnlyFramesArePlausible) {
  const auto plausible = [](std::uint32_t bytes, std::uint16_t kind) {
    return Plausible({.bytes = bytes, .kind = kind});
  };
  EXPECT_TRUE(plausible(8, 1) && plausible(1024, 2) && plausible(kMessagesBytesMax, 3) && plausible(1, 4));
  EXPECT_TRUE(plausible(8, 5) && plausible(1024, 5));
  EXPECT_FALSE(plausible(7, 1) || plausible(1025, 1) || plausible(0, 3) || plausible(12, 3));
  EXPECT_FALSE(plausible(kMessagesBytesMax + 8, 3) || plausible(0, 4) || plausible(kArenaBytesMax + 1, 4));
  EXPECT_FALSE(plausible(8, 0) || plausible(7, 5) || plausible(1025, 5) || plausible(8, 6) || plausible(8, 0xFFFF));
}

}  // namespace
}  // namespace weir::proto::net
