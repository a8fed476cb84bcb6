// SPDX-License-Identifier: Apache-2.0
#include "proto/port_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <vector>

#include "tests/harness/code_of.h"
#include "tests/harness/golden.h"

namespace weir::proto::port {
namespace {

using weir::testing::CodeOf;

TEST(PortMemory, IsLaidOutAsItsGoldenBytes) {
  alignas(64) static std::byte page[kMemoryRingsAt];
  const MemoryHeader header = MemoryHeaderFor(4 << 20);
  std::memcpy(page, &header, sizeof header);
  std::uint64_t value = 0x1122334455667701;
  for (const std::size_t at : {kMemoryGuestAt, kMemoryHostAt}) {
    auto* end = new (page + at) MemoryEnd;
    end->epoch = value++;
    end->produced = value++;
    end->consumed = value++;
  }
  weir::testing::ExpectGolden("port_memory_v1.hex", page);
}

TEST(PortMemory, RingsAreTheLargestThatFit) {
  for (std::uint64_t bytes = kMemoryBytesMin; bytes <= kMemoryBytesMax; bytes = bytes * 3 / 2) {
    const MemoryHeader header = MemoryHeaderFor(bytes);
    EXPECT_TRUE(CheckMemoryHeader(header, bytes, "it")) << bytes;
    EXPECT_LE(kMemoryRingsAt + 2 * header.ring_bytes, bytes);
    EXPECT_GT(kMemoryRingsAt + 4 * header.ring_bytes, bytes);
  }
  EXPECT_EQ(MemoryHeaderFor(4 << 20).ring_bytes, 1U << 20);
}

TEST(PortMemory, OtherFilesAreRefusedWithAReason) {
  const MemoryHeader good = MemoryHeaderFor(4 << 20);
  EXPECT_TRUE(CheckMemoryHeader(good, 4 << 20, "it") && CheckMemoryHeader(good, UINT64_MAX, "it"));
  const auto code_with = [&](auto change) {
    MemoryHeader header = good;
    change(header);
    return CodeOf(CheckMemoryHeader(header, 4 << 20, "it"));
  };
  EXPECT_EQ(code_with([](auto& h) { h.magic = 0; }), Errc::kUnavailable);
  EXPECT_EQ(code_with([](auto& h) { h.magic = UINT32_MAX; }), Errc::kUnavailable);
  EXPECT_EQ(code_with([](auto& h) { h.magic += 1; }), Errc::kInvalidArgument);
  EXPECT_EQ(code_with([](auto& h) { h.version = 2; }), Errc::kVersionMismatch);
  for (const std::uint64_t ring :
       {std::uint64_t{0}, kMemoryRingMin / 2, kMemoryRingMin * 3, std::uint64_t{2 << 20}, std::uint64_t{1} << 63})
    EXPECT_EQ(code_with([&](auto& h) { h.ring_bytes = ring; }), Errc::kInvalidArgument) << ring;
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMemoryBytesMin - 1, std::uint64_t{8 << 20}, UINT64_MAX})
    EXPECT_EQ(code_with([&](auto& h) { h.bytes = bytes; }), Errc::kInvalidArgument) << bytes;
  EXPECT_EQ(CodeOf(CheckMemoryHeader(good, (4 << 20) - 1, "it")), Errc::kInvalidArgument) << "cut";
}

}  // namespace
}  // namespace weir::proto::port
