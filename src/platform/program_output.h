// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end for its output.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::platform {

struct ProgramOutput {
  std::string text;   // standard output and standard error
  int exit_code = 0;  // 128 and the signal's number if a signal ended it
};

/// Waits for the program's end. kTimeout: it was ended after `at_most`. kResourceExhausted: it was ended because it
/// printed more than `bytes_max`. The program's path is argv[0].
Result<ProgramOutput> OutputOf(const std::vector<std::string>& argv, Duration at_most = seconds(60),
                               std::size_t bytes_max = std::size_t{1} << 20);

}  // namespace weir::platform
