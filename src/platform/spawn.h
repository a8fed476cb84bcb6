// SPDX-License-Identifier: Apache-2.0
// Starts a program that may outlive this process: in its own process group, with this process's environment and an
// ordinary priority.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::platform {

struct SpawnSpec {
  std::vector<std::string> argv;       // argv[0]: its path
  int kept_fd = -1;                    // stays open in the child with the same number
  int piped_fd = -1;                   // becomes the child's standard input and output
  int output_fd = -1;                  // becomes the child's standard output and standard error
  uid_t uid = static_cast<uid_t>(-1);  // user to run as, in its primary group only; -1: this process's user and groups
  bool confined = false;               // see confinement.h; for programs that execute code of tenants
  /// NAME=VALUE, added to this process's environment; replaces a variable of the same name.
  std::vector<std::string> environment{};
};

/// The caller must reap the child. An error means that it can't be executed.
Result<pid_t> Spawn(const SpawnSpec& spec);

}  // namespace weir::platform
