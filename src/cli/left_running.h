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
  /// The vGPUs while the daemon still runs. Processes are held by pidfd, so that a reused pid is not taken for one of
  /// them.
  explicit AttachedProcesses(const std::vector<VgpuView>& vgpus);
  /// After the daemon has ended: the number of processes that go on. An executor counts while a program is connected to
  /// it: it outlives the program by a moment, and nothing runs in it then. Hosts of modules end with the daemon.
  [[nodiscard]] std::size_t CountLeft() const;

 private:
  struct Process {
    pid_t pid;
    platform::Fd pidfd;
    std::string executor_at;  // the socket at which it serves programs; empty: it is a program itself
  };
  std::vector<Process> processes_;
};

}  // namespace weir::cli
