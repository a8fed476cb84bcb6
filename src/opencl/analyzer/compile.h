// SPDX-License-Identifier: Apache-2.0
// OpenCL C to bitcode, by the clang program: a child of this process, so that a crash of it is an answer.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::opencl {

/// The options for clang. kInvalidArgument: one that a program can't need for being analysed (paths, above all).
Result<std::vector<std::string>> CompilerOptions(const std::vector<std::string>& options);

/// kInvalidArgument: what clang said of the source. kUnavailable: there is no clang.
Result<std::vector<char>> CompileToBitcode(const std::vector<std::string>& options, const std::string& source);

}  // namespace weir::opencl
