// SPDX-License-Identifier: Apache-2.0
// What a command line of somebody else's says: run with a bound on its time and on its output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::drivers {

struct CommandOutput {
  int exit_code = 0;  // as a shell has it: 128 and the signal's number where one ended it
  std::string text;   // standard output, and standard error behind each other as they came
};

inline constexpr std::size_t kCommandBytesMax = 4U << 20;

/// `argv[0]` is looked up in PATH unless it has a slash. Errors: kNotFound, kTimeout (it is killed), kResourceExhausted
/// (more than `bytes_max`; it is killed), kIo.
Result<CommandOutput> RunCommand(const std::vector<std::string>& argv, Duration within,
                                 std::size_t bytes_max = kCommandBytesMax);

/// What runs commands; tests have their own.
using CommandRunner = std::function<Result<CommandOutput>(const std::vector<std::string>& argv)>;

}  // namespace weir::drivers
