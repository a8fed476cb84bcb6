// SPDX-License-Identifier: Apache-2.0
// One kernel's instructions, one after another: which of them touch buffers, and when.
#pragma once

#include <llvm/IR/PassManager.h>

#include "core/partition/access.h"

namespace weir::opencl {

core::KernelAccess WalkKernel(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);

}  // namespace weir::opencl
