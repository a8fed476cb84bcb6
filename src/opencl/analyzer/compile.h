// SPDX-License-Identifier: Apache-2.0
// Compiles OpenCL C to bitcode with the clang program. Clang runs in a child process, so that its crash becomes an
// error.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::opencl {

/// Returns the options for clang. kInvalidArgument: an option that the analysis does not support, such as a path.
Result<std::vector<std::string>> CompilerOptions(const std::vector<std::string>& options);

/// The options that CompilerOptions accepts, without macro definitions. Used for preprocessed text.
std::vector<std::string> LanguageOptions(const std::vector<std::string>& options);

/// Returns the text without conditionals and macros, with line markers. Only `macros` ("NAME=VALUE" or "NAME") and
/// those of the options are defined. No file is included implicitly, so that the names of OpenCL's constants stay.
/// Errors as below.
Result<std::string> Preprocess(const std::vector<std::string>& options, const std::vector<std::string>& macros,
                               const std::string& source);

/// kInvalidArgument: clang's diagnostics of the source. kUnavailable: clang is missing.
Result<std::vector<char>> CompileToBitcode(const std::vector<std::string>& options, const std::string& source);

}  // namespace weir::opencl
