// SPDX-License-Identifier: Apache-2.0
// The memory that a part of a launch gets instead of whole buffers: slices, and the position of each argument in them.
// Pure. Page: docs/partition.md
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/footprint.h"

namespace weir::kernel {

/// Bytes [begin, end) of a memory object. `written` lists the part's writes, with offsets from the start of the memory.
struct MemorySlice {
  std::uint64_t memory = 0;
  std::uint64_t begin = 0, end = 0;
  bool sent = false;  // the part reads some of it, or may leave some of it unchanged
  std::vector<Extent> written{};
  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
};

inline bool SameBytes(const MemorySlice& a, const MemorySlice& b) {
  return a.memory == b.memory && a.begin == b.begin && a.end == b.end;
}

inline constexpr std::size_t kNoSlice = ~std::size_t{0};

/// Position of a buffer argument: its slice begins `base` bytes after the argument's start in the whole launch (before
/// it if negative). kNoSlice: no buffer. A buffer that the part doesn't touch has a slice too, since a kernel may
/// compare its pointer with null.
struct SlicedArgument {
  std::size_t slice = kNoSlice;
  std::int64_t base = 0;
};

struct PartSlices {
  std::vector<MemorySlice> slices{};        // disjoint
  std::vector<SlicedArgument> arguments{};  // one entry for each argument of the kernel
};

/// Slices for `part`, each starting at a multiple of `alignment` bytes in its memory object. Arguments that overlap in
/// one memory object share a slice. Errors: those of FootprintOf.
Result<PartSlices> SlicesOf(const KernelAccess& access, const KernelLaunch& launch, const PartRange& part,
                            std::uint64_t alignment);

}  // namespace weir::kernel
