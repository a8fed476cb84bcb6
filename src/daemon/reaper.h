// SPDX-License-Identifier: Apache-2.0
// Waits for a process that was asked to end, and reaps it. Owns itself.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/fd_watch.h"
#include "platform/fd.h"

namespace weir::daemon {

class Reaper {
 public:
  /// Calls `then` when the process has ended.
  static void Start(boost::asio::io_context& loop, pid_t pid, platform::Fd process, std::function<void()> then = {}) {
    auto reaper = std::make_shared<Reaper>();
    const int fd = process.get();
    reaper->process_ = std::move(process);
    reaper->watch_ = std::make_unique<FdWatch>(loop, fd, [reaper, pid, then = std::move(then)]() mutable {
      ::waitpid(pid, nullptr, 0);
      if (then) then();
      reaper->watch_.reset();
      reaper.reset();
    });
  }

 private:
  platform::Fd process_;
  std::unique_ptr<FdWatch> watch_;
};

}  // namespace weir::daemon
