// SPDX-License-Identifier: Apache-2.0
// The processes that a program became, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "cli/doctor/facts.h"

namespace weir::cli {

/// More are not looked at.
inline constexpr std::size_t kTreeProcessesMax = 256;

/// The descendants of `root`, it included, and what else is in its process group.
std::vector<TreeProcess> LookAtTree(pid_t root);

/// Adds what was seen of a process later, which may have ended, or become another program.
void MergeTree(const std::vector<TreeProcess>& seen, std::vector<TreeProcess>& known);

/// What a text of /proc/PID/maps says about the libraries that are loaded.
void NoteLibraries(std::string_view maps, TreeProcess& process);

}  // namespace weir::cli
