// SPDX-License-Identifier: Apache-2.0
// The memory that a part of a launch is given instead of whole buffers: slices, and where each argument begins in them.
// Pure. Page: docs/partition.md
#pragma once

#include <cstdint>
#include <vector>

#include "core/partition/footprint.h"

namespace weir::core {

/// Bytes [begin, end) of a memory object. What the part writes of it is in `written`, from where the memory begins.
struct MemorySlice {
  std::uint64_t memory = 0;
  std::uint64_t begin = 0, end = 0;
  bool sent = false;  // it reads some of it, or may leave some of it as it was
  std::vector<Extent> written{};
  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
};

inline bool SameBytes(const MemorySlice& a, const MemorySlice& b) {
  return a.memory == b.memory && a.begin == b.begin && a.end == b.end;
}

inline constexpr std::size_t kNoSlice = ~std::size_t{0};

/// Where a buffer argument lies: at `base` bytes from where it begins in the whole launch begins the slice. Below 0:
/// the slice begins before the argument. kNoSlice: there is no buffer. One that the part doesn't touch has a slice all
/// the same, since a kernel may ask whether there is one.
struct SlicedArgument {
  std::size_t slice = kNoSlice;
  std::int64_t base = 0;
};

struct PartSlices {
  std::vector<MemorySlice> slices{};        // no two of them overlap
  std::vector<SlicedArgument> arguments{};  // an entry for each argument of the kernel
};

/// Of `part`; slices begin at multiples of `alignment` bytes from where their memory begins. Arguments that meet in one
/// memory share a slice. Errors: those of FootprintOf.
Result<PartSlices> SlicesOf(const KernelAccess& access, const KernelLaunch& launch, const PartRange& part,
                            std::uint64_t alignment);

}  // namespace weir::core
