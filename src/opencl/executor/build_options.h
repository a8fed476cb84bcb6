// SPDX-License-Identifier: Apache-2.0
// Build options: a client's text is split into words and checked, and the driver's text is composed of the words.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::opencl {

/// Returns options for the driver: `own`, the executor's, followed by the client's. kInvalidArgument: the client's text
/// has a "-D" or "-I" without an argument, an unterminated quote, or a null character. Drivers treat these differently
/// (PoCL 3.1 crashes on a final "-I"). Other options are for the driver to check. The executor's options come first, so
/// that no option of the client can take one of them as its argument.
Result<std::string> MakeBuildOptions(std::string_view own, std::string_view client);

}  // namespace weir::opencl
