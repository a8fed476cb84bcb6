// SPDX-License-Identifier: Apache-2.0
// Walks the instructions of one kernel and records which of them access buffers, and under which conditions.
#pragma once

#include <llvm/IR/PassManager.h>

#include "kernel/access.h"

namespace weir::opencl {

kernel::KernelAccess WalkKernel(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);

}  // namespace weir::opencl
