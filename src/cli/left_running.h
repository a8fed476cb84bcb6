// SPDX-License-Identifier: Apache-2.0
// The programs that continue after their daemon has ended.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/common/views.h"
#include "platform/fd.h"

namespace weir::cli {

class AttachedProcesses {
 public:
  /// `vgpus`: read while the daemon still runs. Processes are identified by pidfds, so that reused pids do not count.
  explicit AttachedProcesses(const std::vector<VgpuView>& vgpus);
  /// To be called after the daemon has ended: the number of processes that continue. An executor counts only while a
  /// program is connected to it, because an idle executor ends by itself. Hosts of modules end with the daemon.
  [[nodiscard]] std::size_t CountLeft() const;

 private:
  struct Process {
    pid_t pid;
    platform::Fd pidfd;
    std::string executor_at;  // for an executor: the socket at which it serves programs; empty: a program
  };
  std::vector<Process> processes_;
};

}  // namespace weir::cli
