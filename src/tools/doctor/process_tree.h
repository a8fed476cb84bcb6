// SPDX-License-Identifier: Apache-2.0
// The processes of a program's tree, from /proc.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

#include "tools/doctor/facts.h"

namespace weir::cli {

/// Upper bound of the processes that are read.
inline constexpr std::size_t kTreeProcessesMax = 256;

/// The descendants of `root` including it, and the other members of its process group.
std::vector<TreeProcess> LookAtTree(pid_t root);

/// Merges a later reading. A process may have ended or executed another program in between.
void MergeTree(const std::vector<TreeProcess>& seen, std::vector<TreeProcess>& known);

/// Records the loaded graphics libraries in a text of /proc/PID/maps.
void NoteLibraries(std::string_view maps, TreeProcess& process);

}  // namespace weir::cli
