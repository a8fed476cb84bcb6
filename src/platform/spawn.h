// SPDX-License-Identifier: Apache-2.0
// Starts a program that lives on by itself: in a process group of its own, with the environment of this process and
// an ordinary priority.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::platform {

struct SpawnSpec {
  std::vector<std::string> argv;       // argv[0]: its path
  int kept_fd = -1;                    // stays open in it, under the same number
  int piped_fd = -1;                   // is its standard input and output
  uid_t uid = static_cast<uid_t>(-1);  // who it runs as, with that user's groups; -1: as this process
  bool confined = false;               // by confinement.h, for programs that execute code of tenants
  /// NAME=VALUE. Each is set beside the environment of this process, or replaces a variable of it.
  std::vector<std::string> environment{};
};

/// The caller reaps it. Errors: what keeps it from being executed.
Result<pid_t> Spawn(const SpawnSpec& spec);

}  // namespace weir::platform
