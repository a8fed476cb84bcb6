// SPDX-License-Identifier: Apache-2.0
// Which bytes of its buffers some work-groups of a launch read and write. Pure. Page: docs/kernel-analysis.md
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/launch_forms.h"

namespace weir::kernel {

/// `rows` runs of `bytes` bytes each, `stride` bytes apart. With one row, stride is 0.
struct Extent {
  std::uint64_t begin = 0, bytes = 0, stride = 0, rows = 1;
  bool whole = false;  // of a write: every byte is written, so the old contents are not needed
  bool operator==(const Extent&) const = default;
  [[nodiscard]] std::uint64_t end() const { return begin + (rows - 1) * stride + bytes; }
  [[nodiscard]] std::uint64_t total() const { return bytes * rows; }
};

/// Footprint of one argument; offsets start at the argument. Reads don't overlap each other; writes may.
struct ArgumentFootprint {
  std::vector<Extent> reads, writes;
};

/// The bytes that `part` of a launch reads and writes, with an entry for each argument. It never omits a byte as long
/// as the kernel stays inside its buffers. A write that is not `whole` needs the old contents, too, which `reads` does
/// not list. kInvalidArgument: a refused kernel, a launch of another kernel, or a part that is not within the launch.
Result<std::vector<ArgumentFootprint>> FootprintOf(const KernelAccess& access, const KernelLaunch& launch,
                                                   const PartRange& part);

}  // namespace weir::kernel
