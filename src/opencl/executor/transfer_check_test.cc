// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/transfer_check.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

namespace weir::opencl {
namespace {

using Three = std::array<std::uint64_t, 3>;

/// Small numbers, powers of two and their neighbours, the largest numbers, and arbitrary ones.
rc::Gen<std::uint64_t> Hostile() {
  return rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 20),
                        rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 64), rc::gen::inRange(-2, 3)),
                                     [](std::pair<int, int> p) {
                                       return (std::uint64_t{1} << p.first) +
                                              static_cast<std::uint64_t>(std::int64_t{p.second});
                                     }),
                        rc::gen::map(rc::gen::inRange<std::uint64_t>(0, 20), [](std::uint64_t n) { return ~n; }),
                        rc::gen::arbitrary<std::uint64_t>());
}
rc::Gen<Three> HostileThree() { return rc::gen::container<Three>(Hostile()); }

/// An exact number of up to 256 bits, enough for any sum of products of three 64-bit numbers.
struct Exact {
  unsigned __int128 low = 0;
  std::uint64_t carries = 0;
  void Add(std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    low += product;
    if (low < product) ++carries;
  }
  [[nodiscard]] bool AtMost(std::uint64_t limit) const { return carries == 0 && low <= limit; }
};

RC_GTEST_PROP(TransferCheckLaws, AnAcceptedRangeLiesWithinItsBuffer, ()) {
  const std::uint64_t limit = *Hostile(), offset = *Hostile(), size = *Hostile();
  const bool within = size != 0 && static_cast<unsigned __int128>(offset) + size <= limit;
  RC_ASSERT(RangeFits(limit, offset, size) == within);
}

RC_GTEST_PROP(TransferCheckLaws, AnAcceptedBoxLiesWithinItsBuffer, ()) {
  const std::uint64_t limit = *Hostile();
  const Three o = *HostileThree(), r = *HostileThree();
  const std::uint64_t origin[3] = {o[0], o[1], o[2]}, region[3] = {r[0], r[1], r[2]};
  const std::uint64_t row_pitch = *Hostile(), slice_pitch = *Hostile();
  const bool fits = BoxFits(limit, {origin, region, row_pitch, slice_pitch});
  if (std::ranges::find(r, 0U) != r.end()) {
    RC_ASSERT(!fits);
    return;
  }
  const std::uint64_t row = row_pitch != 0 ? row_pitch : r[0];
  const unsigned __int128 least = static_cast<unsigned __int128>(row) * r[1];
  const bool allowed = row >= r[0] && (slice_pitch == 0 || (slice_pitch >= least && slice_pitch % row == 0));
  if (slice_pitch == 0 && least > UINT64_MAX) {
    RC_ASSERT(!fits);
    return;
  }
  const std::uint64_t slice = slice_pitch != 0 ? slice_pitch : static_cast<std::uint64_t>(least);
  // One past the last byte: the sum over the origin and over the last row and slice.
  Exact end;
  end.Add(o[2], slice);
  end.Add(r[2] - 1, slice);
  end.Add(o[1], row);
  end.Add(r[1] - 1, row);
  end.Add(o[0], 1);
  end.Add(r[0], 1);
  RC_ASSERT(fits == (allowed && end.AtMost(limit)));
}

// Every byte of the box, one by one.
RC_GTEST_PROP(TransferCheckLaws, NoByteOfAnAcceptedSmallBoxLiesOutside, ()) {
  const auto small = rc::gen::inRange<std::uint64_t>(0, 6);
  const std::uint64_t limit = *rc::gen::inRange<std::uint64_t>(0, 400);
  const std::uint64_t origin[3] = {*small, *small, *small}, region[3] = {*small, *small, *small};
  const std::uint64_t row_pitch = *rc::gen::inRange<std::uint64_t>(0, 12);
  const std::uint64_t slice_pitch = row_pitch * *small;
  if (!BoxFits(limit, {origin, region, row_pitch, slice_pitch})) return;
  const std::uint64_t row = row_pitch != 0 ? row_pitch : region[0];
  const std::uint64_t slice = slice_pitch != 0 ? slice_pitch : row * region[1];
  for (std::uint64_t z = 0; z < region[2]; ++z)
    for (std::uint64_t y = 0; y < region[1]; ++y)
      for (std::uint64_t x = 0; x < region[0]; ++x)
        RC_ASSERT((origin[2] + z) * slice + (origin[1] + y) * row + origin[0] + x < limit);
}

RC_GTEST_PROP(TransferCheckLaws, AcceptedPixelsLieWithinTheirImage, ()) {
  const Three e = *HostileThree(), o = *HostileThree(), r = *HostileThree();
  bool within = true;
  for (std::size_t i = 0; i < 3; ++i) within &= r[i] != 0 && static_cast<unsigned __int128>(o[i]) + r[i] <= e[i];
  RC_ASSERT(PixelsFit({e[0], e[1], e[2]}, {o[0], o[1], o[2]}, {r[0], r[1], r[2]}) == within);
}

RC_GTEST_PROP(TransferCheckLaws, AnAcceptedFillLiesWithinItsBuffer, ()) {
  const std::uint64_t limit = *Hostile(), pattern = *Hostile(), offset = *Hostile(), size = *Hostile();
  if (!FillFits(limit, pattern, offset, size)) return;
  RC_ASSERT(pattern <= 128U && size % pattern == 0 && offset % pattern == 0);
  RC_ASSERT(static_cast<unsigned __int128>(offset) + size <= limit);
}

TEST(TransferCheck, APitchWhoseProductOverflowsDoesNotFit) {
  constexpr std::uint64_t origin[3] = {0, 0, 0}, region[3] = {1, (1ULL << 20) + 1, 1};
  EXPECT_FALSE(BoxFits(1 << 20, {origin, region, 1ULL << 44, 0}));
}

TEST(TransferCheck, TheWholeBufferFits) {
  constexpr std::uint64_t origin[3] = {0, 0, 0}, region[3] = {16, 4, 4};
  EXPECT_TRUE(BoxFits(256, {origin, region, 0, 0}));
  EXPECT_TRUE(BoxFits(256, {origin, region, 16, 64}));
  EXPECT_FALSE(BoxFits(255, {origin, region, 16, 64}));
  EXPECT_FALSE(BoxFits(1024, {origin, region, 15, 0}));
  EXPECT_TRUE(RangeFits(256, 0, 256));
  EXPECT_TRUE(FillFits(256, 128, 128, 128));
}

}  // namespace
}  // namespace weir::opencl
