// SPDX-License-Identifier: Apache-2.0
// Makes kernels that compute some work-groups of a launch with slices of its buffers, from the source of the original
// kernels. Contract: docs/kernel-analysis.md, "A part's kernel". Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/access.h"

namespace weir::kernel {

/// A kernel that may be split.
struct PartKernel {
  std::string kernel{};
  std::string why_not{};  // text: why there is no weir_part_KERNEL; empty if there is one
  bool operator==(const PartKernel&) const = default;
};

/// `parts` has an entry for each kernel that is not refused, in their order; `text` is empty if no kernel has a part's
/// kernel.
struct PartSource {
  std::vector<PartKernel> parts{};
  std::string text{};
  bool operator==(const PartSource&) const = default;
};

inline constexpr std::size_t kPartSourceMax = std::size_t{4} << 20;

/// `preprocessed`: OpenCL C that compiles, without conditionals and macros. `macros`: names that the program's own
/// build options define; preprocessing has expanded them, so the text undefines them. Anything that is not understood
/// becomes a why_not.
PartSource MakePartSource(std::string_view preprocessed, std::span<const KernelAccess> kernels,
                          std::span<const std::string> macros = {});

/// Gives every kernel that isn't refused the same reason.
PartSource NoPartSource(std::span<const KernelAccess> kernels, const std::string& why_not);

}  // namespace weir::kernel
