// SPDX-License-Identifier: Apache-2.0
// Which bytes of its buffers some work-groups of a launch read and write. Pure. Page: docs/kernel-analysis.md
#pragma once

#include <cstdint>
#include <vector>

#include "core/partition/launch_forms.h"

namespace weir::core {

/// `rows` runs of `bytes` bytes, `stride` apart. One row: stride is 0.
struct Extent {
  std::uint64_t begin = 0, bytes = 0, stride = 0, rows = 1;
  bool whole = false;  // of a write: every byte of it is written, so its old contents need not be there
  bool operator==(const Extent&) const = default;
  [[nodiscard]] std::uint64_t end() const { return begin + (rows - 1) * stride + bytes; }
  [[nodiscard]] std::uint64_t total() const { return bytes * rows; }
};

/// Of one argument; offsets are from where the argument begins. Reads don't overlap each other; writes may.
struct ArgumentFootprint {
  std::vector<Extent> reads, writes;
};

/// What `part` of a launch reads and writes, an entry for each argument: never less than it does, as long as the kernel
/// stays inside its buffers. What is written and not `whole` has to be there before as well; it is not in `reads`.
/// kInvalidArgument: the launch is not one of this kernel, or the part is not one of the launch; also for a refused
/// kernel.
Result<std::vector<ArgumentFootprint>> FootprintOf(const KernelAccess& access, const KernelLaunch& launch,
                                                   const PartRange& part);

}  // namespace weir::core
