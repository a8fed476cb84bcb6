// SPDX-License-Identifier: Apache-2.0
// Translates LLVM IR to symbolic accesses of kernels. One of the few files that use LLVM.
#pragma once

#include <span>
#include <vector>

#include "kernel/access.h"

namespace weir::opencl {

/// Returns the accesses of each kernel in a module's bitcode, which clang has compiled for spir64 without optimisation.
/// Light optimisation first makes loops and indices visible. kInvalidArgument: malformed bitcode.
Result<std::vector<kernel::KernelAccess>> LowerBitcode(std::span<const char> bitcode);

}  // namespace weir::opencl
