// SPDX-License-Identifier: Apache-2.0
// Kernels that compute some work-groups of a launch with slices of its buffers, made of the text of the whole launch's
// kernels. Contract: docs/kernel-analysis.md, "A part's kernel". Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/partition/access.h"

namespace weir::core {

/// Of a kernel that may be split.
struct PartKernel {
  std::string kernel{};
  std::string why_not{};  // in words, where there is no weir_part_KERNEL; else empty
  bool operator==(const PartKernel&) const = default;
};

/// `parts` has an entry for each of the kernels that is not refused, in their order; `text` is empty where none has a
/// part's kernel.
struct PartSource {
  std::vector<PartKernel> parts{};
  std::string text{};
  bool operator==(const PartSource&) const = default;
};

inline constexpr std::size_t kPartSourceMax = std::size_t{4} << 20;

/// `preprocessed`: OpenCL C that compiles, without conditionals and macros. `macros`: names that the program's own
/// build options define; they have done their work, and are undefined in the text. Whatever isn't understood is a
/// why_not.
PartSource MakePartSource(std::string_view preprocessed, std::span<const KernelAccess> kernels,
                          std::span<const std::string> macros = {});

/// For all of the kernels that aren't refused.
PartSource NoPartSource(std::span<const KernelAccess> kernels, const std::string& why_not);

}  // namespace weir::core
