// SPDX-License-Identifier: Apache-2.0
// Runs an external command with bounds on its time and its output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::drivers {

struct CommandOutput {
  int exit_code = 0;  // as in a shell: 128 and the signal's number if a signal ended it
  std::string text;   // standard output and standard error, in the order of writing
};

inline constexpr std::size_t kCommandBytesMax = 4U << 20;

/// `argv[0]` is looked up in PATH unless it contains a slash. Errors: kNotFound, kTimeout (the command is killed),
/// kResourceExhausted (more than `bytes_max` of output; the command is killed), kIo.
Result<CommandOutput> RunCommand(const std::vector<std::string>& argv, Duration within,
                                 std::size_t bytes_max = kCommandBytesMax);

/// Runs commands; tests substitute it.
using CommandRunner = std::function<Result<CommandOutput>(const std::vector<std::string>& argv)>;

}  // namespace weir::drivers
