// SPDX-License-Identifier: Apache-2.0
#include "kernel/part_slices.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "base/prng.h"
#include "kernel/cuttable.h"
#include "tests/harness/mover_kernel.h"

namespace weir::kernel {
namespace {

constexpr std::uint64_t kAligned = 16;
using Memory = std::vector<std::uint8_t>;

TEST(PartSlices, ArgumentsInOneMemoryShareASliceWhereTheyMeet) {
  Mover mover{.d = 8};
  mover.arguments = {LaunchArgument{.memory = 1, .offset = 0, .bytes = 400},
                     LaunchArgument{.memory = 1, .offset = 0, .bytes = 400}};
  mover.Prepare(10, 4);
  const auto near = SlicesOf(mover.kernel.access, mover.launch, {0, 4, 8}, kAligned);  // ints 24 to 40 and 16 to 32
  ASSERT_TRUE(near);
  ASSERT_EQ(near->slices.size(), 1U);
  EXPECT_EQ(near->slices[0].begin, 64U);
  EXPECT_EQ(near->slices[0].end, 160U);
  EXPECT_TRUE(near->slices[0].sent);
  mover.arguments[1].offset = 1600;
  const auto apart = SlicesOf(mover.kernel.access, mover.launch, {0, 4, 8}, kAligned);
  ASSERT_TRUE(apart);
  ASSERT_EQ(apart->slices.size(), 2U);
  EXPECT_EQ(apart->arguments[1].base, 64);
  EXPECT_FALSE(apart->slices[1].sent) << "all of it is written";
}

TEST(PartSlices, AnUntouchedBufferHasASlice) {
  Mover mover;
  mover.arguments = {LaunchArgument{.memory = 1, .bytes = 400}, LaunchArgument{.memory = 2, .bytes = 400}};
  mover.Prepare(10, 4);
  mover.kernel.access.accesses.pop_back();
  const auto made = SlicesOf(mover.kernel.access, mover.launch, {0, 4, 8}, kAligned);
  ASSERT_TRUE(made);
  ASSERT_EQ(made->slices.size(), 2U);
  EXPECT_EQ(made->slices[1].bytes(), 1U);
  EXPECT_FALSE(made->slices[1].sent);
  mover.arguments[1] = {};
  EXPECT_EQ(SlicesOf(mover.kernel.access, mover.launch, {0, 4, 8}, kAligned)->arguments[1].slice, kNoSlice);
}

// For any strides and any positions of the two arguments in memory: parts that only have slices leave the same result
// as the whole launch.
RC_GTEST_PROP(PartSlicesLaws, PartsOnSlicesMakeTheWhole, (std::uint64_t seed)) {
  Prng prng(seed);
  Mover mover{.a = prng.Between(1, 3), .b = prng.Between(0, 5), .c = prng.Between(0, 3), .d = prng.Between(0, 20)};
  const bool one_memory = prng.Between(0, 1) == 0;
  const auto place = [&] { return static_cast<std::uint64_t>(prng.Between(0, 40)) * 4; };
  mover.arguments = {LaunchArgument{.memory = 1, .offset = place(), .bytes = 600},
                     LaunchArgument{.memory = one_memory ? 1U : 2U, .offset = place(), .bytes = 600}};
  const auto groups = static_cast<std::uint64_t>(prng.Between(1, 9));
  mover.Prepare(groups, static_cast<std::uint64_t>(prng.Between(1, 4)));
  std::array<Memory, 2> whole{Memory(800), Memory(800)};
  for (Memory& memory : whole)
    for (std::uint8_t& byte : memory) byte = static_cast<std::uint8_t>(prng.Between(0, 255));
  std::array<Memory, 2> merged = whole;
  if (!Cuttable(mover.kernel.access, mover.launch)[0].yes) return;
  const auto memory_of = [&](std::array<Memory, 2>& all, unsigned argument) {
    return all[mover.arguments[argument].memory - 1].data() + mover.arguments[argument].offset;
  };
  for (std::uint64_t id = 0; id < mover.launch.global[0]; ++id)
    mover.Run(static_cast<std::int64_t>(id), memory_of(whole, 0), memory_of(whole, 1));

  const std::array<Memory, 2> before = merged;
  for (std::uint64_t first = 0; first < groups;) {
    const PartRange part{0, first,
                         static_cast<std::uint64_t>(
                             prng.Between(static_cast<std::int64_t>(first) + 1, static_cast<std::int64_t>(groups)))};
    const auto made = SlicesOf(mover.kernel.access, mover.launch, part, kAligned);
    RC_ASSERT(made);
    std::vector<Memory> slices;
    for (const MemorySlice& slice : made->slices) {
      RC_ASSERT(slice.begin % kAligned == 0);
      RC_ASSERT(slice.end <= 800U);
      Memory bytes(slice.bytes(), 0xEE);
      if (slice.sent) std::memcpy(bytes.data(), before[slice.memory - 1].data() + slice.begin, bytes.size());
      slices.push_back(std::move(bytes));
    }
    const auto given = [&](unsigned argument) {
      const SlicedArgument& at = made->arguments[argument];
      return slices[at.slice].data() - at.base;
    };
    for (std::uint64_t id = part.first * mover.launch.local[0]; id < part.end * mover.launch.local[0]; ++id)
      mover.Run(static_cast<std::int64_t>(id), given(0), given(1));
    for (std::size_t i = 0; i < slices.size(); ++i)
      for (const Extent& extent : made->slices[i].written)
        for (std::uint64_t row = 0; row < extent.rows; ++row) {
          const std::uint64_t at = extent.begin + row * extent.stride;
          std::memcpy(merged[made->slices[i].memory - 1].data() + at, slices[i].data() + at - made->slices[i].begin,
                      extent.bytes);
        }
    first = part.end;
  }
  RC_ASSERT(merged == whole);
}

}  // namespace
}  // namespace weir::kernel
