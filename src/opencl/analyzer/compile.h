// SPDX-License-Identifier: Apache-2.0
// OpenCL C to bitcode, by the clang program: a child of this process, so that a crash of it is an answer.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::opencl {

/// The options for clang. kInvalidArgument: one that a program can't need for being analysed (paths, above all).
Result<std::vector<std::string>> CompilerOptions(const std::vector<std::string>& options);

/// Of what CompilerOptions takes, what is no macro: for a text that is preprocessed.
std::vector<std::string> LanguageOptions(const std::vector<std::string>& options);

/// The text without conditionals and macros, with markers of its lines. `macros`, as "NAME=VALUE" or "NAME", and those
/// of the options are all that is defined. Nothing is included that the source doesn't: names of OpenCL's constants
/// stay. Errors as below.
Result<std::string> Preprocess(const std::vector<std::string>& options, const std::vector<std::string>& macros,
                               const std::string& source);

/// kInvalidArgument: what clang said of the source. kUnavailable: there is no clang.
Result<std::vector<char>> CompileToBitcode(const std::vector<std::string>& options, const std::string& source);

}  // namespace weir::opencl
