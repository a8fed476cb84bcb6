// SPDX-License-Identifier: Apache-2.0
#include "cli/left_running.h"

#include <poll.h>

#include <algorithm>

#include "platform/process.h"
#include "platform/unix_connections.h"
#include "proto/attach_messages.h"

namespace weir::cli {
namespace {

bool HasEnded(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

AttachedProcesses::AttachedProcesses(const std::vector<VgpuView>& vgpus) {
  for (const VgpuView& vgpu : vgpus)
    for (const ProcessView& process : vgpu.processes) {
      if (process.api == proto::NameOf(proto::Api::kModule)) continue;
      const auto pid = static_cast<pid_t>(process.pid);
      auto pidfd = platform::OpenPidFd(pid);
      if (!pidfd) continue;  // the process has ended
      processes_.push_back(
          {pid, std::move(*pidfd), process.api == proto::NameOf(proto::Api::kOpenCl) ? vgpu.opencl : ""});
    }
}

std::size_t AttachedProcesses::CountLeft() const {
  return static_cast<std::size_t>(std::ranges::count_if(processes_, [](const Process& process) {
    if (HasEnded(process.pidfd.get())) return false;
    if (process.executor_at.empty()) return true;
    const auto client = platform::HasClientAt(process.executor_at, process.pid);
    return client ? *client : client.error().code != Errc::kNotFound;
  }));
}

}  // namespace weir::cli
