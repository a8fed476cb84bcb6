// SPDX-License-Identifier: Apache-2.0
// The options of a build: a client's text is split into words and checked, and the driver's text is made of the words.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::opencl {

/// Options for the driver: `own`, the executor's, and then the client's. kInvalidArgument: the client's text has an
/// "-D" or "-I" without its argument, a quote without its end, or a null character. Drivers treat these differently
/// (PoCL 3.1 crashes on a last "-I"). Which other options and words there are is the driver's to know. The executor's
/// options come first, so that nothing of the client's can take them for an argument.
Result<std::string> MakeBuildOptions(std::string_view own, std::string_view client);

}  // namespace weir::opencl
