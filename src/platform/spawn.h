// SPDX-License-Identifier: Apache-2.0
// Starts a program that may outlive this process: in its own process group, with this process's environment and an
// ordinary priority. A confined program is in a session of its own, without a terminal.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/confinement.h"

namespace weir::platform {

/// The user and the groups of a program.
struct RunAs {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};  // beside gid
};

/// Makes them this process's. Needs the right to change users. False, with errno: not all of them have changed.
bool Become(const RunAs& user);

/// The account with this number, in its primary group only. kNotFound: this system has no such account.
Result<RunAs> AccountOf(uid_t uid);

/// Limit of the processes and threads of a user that executes code of one tenant. A driver that computes on CPUs has a
/// thread for each of them.
inline constexpr unsigned kTenantProcessesMax = 4'096;

struct SpawnSpec {
  std::vector<std::string> argv;      // argv[0]: its path
  int kept_fd = -1;                   // stays open in the child with the same number
  int piped_fd = -1;                  // becomes the child's standard input and output
  int output_fd = -1;                 // becomes the child's standard output and standard error
  int error_fd = -1;                  // becomes its standard error; it ignores SIGPIPE, as the reader may end first
  bool silent = false;                // the child's output is discarded
  bool no_output = false;             // its standard output is discarded, its standard error is not
  std::optional<RunAs> as{};          // empty: this process's user and groups
  bool confined = false;              // see confinement.h; for programs that execute code of tenants
  std::optional<FileRights> files{};  // with `confined`; absent: what the user may do
  unsigned processes_max = 0;         // of the user, with threads; 0: no limit of its own
  std::vector<std::string>
      groups{};                 // ControlGroups::EntriesOf the group that the child enters, as this process's user
  bool own_namespaces = false;  // see namespaces.h; the program does not start where it can't have them
  /// The kernel ends such a program before others when the machine has no memory left.
  bool expendable = false;
  /// All other processes of the user `as` are killed before the program starts. Requires `confined`, and a user other
  /// than root.
  bool ends_its_user = false;
  /// NAME=VALUE, added to this process's environment; replaces a variable of the same name.
  std::vector<std::string> environment{};
};

/// The caller must reap the child. An error means that it can't be executed.
Result<pid_t> Spawn(const SpawnSpec& spec);

}  // namespace weir::platform
