// SPDX-License-Identifier: Apache-2.0
// Groups of processes that have limits of the machine's memory and of processes: control groups of the kernel
// (cgroups), version 2 or 1. A program enters a group before it becomes another user (SpawnSpec::groups). Without
// rights it can't leave the group, nor can the processes that it starts.
//
//   MOUNT/NAME         all groups together
//   MOUNT/NAME/GROUP   one of them
//
// What counts as memory of a group: anonymous memory, and pages of files, also of files in a tmpfs until they are
// removed, that the group's processes were the first to use. When a group is full and nothing of it can be given back,
// the kernel kills a process of the group, or all of them (version 2).
//
// NAME lies in the root of the hierarchy and not in the group of this process. With version 2, a group with limited
// groups in it holds no processes of its own, so a service manager could not start this process again in its group
// while such groups remain.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::platform {

/// 0: no limit.
struct GroupLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t processes = 0;  // with threads
};

/// A place where the kernel shows a hierarchy of control groups.
struct CgroupMount {
  std::string folder;
  bool is_v2 = false;
  bool memory = false, processes = false;  // which controllers it has; of version 1 only
};
/// Those in the text of /proc/PID/mountinfo.
std::vector<CgroupMount> CgroupMountsIn(std::string_view mountinfo);

class ControlGroups {
 public:
  /// Makes NAME. `root`: "" except in tests. Errors, in words for users: this system has no control groups with limits
  /// of memory, or this process may not make any. Where there are none with limits of processes, these have none.
  static Result<ControlGroups> Make(const std::string& name, const GroupLimits& together, const std::string& root = "");

  /// Makes the group, and NAME, if they are missing, and sets its limits. A limit of memory that is below what the
  /// group holds would end its processes: the former limit stays then, until a later call finds less.
  [[nodiscard]] Status Set(const std::string& group, const GroupLimits& limits) const;
  /// The files that a process writes "0" to in order to enter the group.
  [[nodiscard]] std::vector<std::string> EntriesOf(const std::string& group) const;
  /// How many processes of the group the kernel has killed because its memory was full.
  [[nodiscard]] std::uint64_t KilledForMemory(const std::string& group) const;
  /// Removes groups that are not in `groups` and in which no process is left. Returns whether all of them are gone.
  bool RemoveUnused(const std::set<std::string>& groups) const;
  /// Removes NAME if no group is left in it.
  void RemoveIfEmpty() const;
  /// The folders of NAME, one for each hierarchy.
  [[nodiscard]] std::vector<std::string> Folders() const;

 private:
  /// NAME in one hierarchy, which limits memory, processes or both.
  struct Part {
    std::string folder;
    bool is_v2 = false;
    bool memory = false, processes = false;
  };
  static Status MakePart(const Part& part, const GroupLimits& together);
  static Status SetLimits(const Part& part, const std::string& folder, const GroupLimits& limits);

  std::vector<Part> parts_;
  GroupLimits together_;
};

/// The files in `folders`, each as ControlGroups::Folders has it, that a process writes "0" to in order to enter
/// `group`.
std::vector<std::string> GroupEntries(const std::vector<std::string>& folders, const std::string& group);

}  // namespace weir::platform
