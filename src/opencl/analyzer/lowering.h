// SPDX-License-Identifier: Apache-2.0
// From LLVM IR to what a kernel accesses, in symbols. One of the few files that know LLVM.
#pragma once

#include <span>
#include <vector>

#include "core/partition/access.h"

namespace weir::opencl {

/// Of each kernel in a module's bitcode, made by clang for spir64 without optimisation. The module is optimised a
/// little first, so that loops and indices show. kInvalidArgument: it is none.
Result<std::vector<core::KernelAccess>> LowerBitcode(std::span<const char> bitcode);

}  // namespace weir::opencl
