// SPDX-License-Identifier: Apache-2.0
// The node's portal, by which tenants on other machines come (docs/network.md): started with the daemon, and again when
// it has ended. When the daemon goes it lets nobody new in, and those who are connected go on.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/fd_watch.h"
#include "daemon/portal_setup.h"
#include "platform/fd.h"

namespace weir::daemon {

class PortalHost {
 public:
  /// `run_dir`: the daemon's. The error is what keeps the portal from being started; that it can't listen it says
  /// itself.
  static Result<std::unique_ptr<PortalHost>> Start(boost::asio::io_context& loop, const std::string& run_dir,
                                                   const PortalSetup& setup);
  PortalHost(const PortalHost&) = delete;
  PortalHost& operator=(const PortalHost&) = delete;

 private:
  PortalHost(boost::asio::io_context& loop, std::vector<std::string> argv)
      : loop_(loop), timer_(loop), argv_(std::move(argv)) {}
  Status Spawn();
  void OnEnd();
  void StartLater();

  boost::asio::io_context& loop_;
  boost::asio::steady_timer timer_;
  const std::vector<std::string> argv_;
  pid_t pid_ = 0;
  platform::Fd process_;
  std::unique_ptr<FdWatch> watch_;
};

}  // namespace weir::daemon
