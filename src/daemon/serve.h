// SPDX-License-Identifier: Apache-2.0
// The node daemon as one call, used by `weir serve`. It never calls a GPU API.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/helper_setup.h"
#include "daemon/node.h"
#include "device/device.h"

namespace weir::daemon {

struct ServeOptions {
  std::string run_dir;                // for sockets; empty: platform::DefaultRunDir()
  std::string state_dir;              // for saved state; empty: platform::DefaultStateDir()
  std::string socket;                 // control socket; empty: RUN_DIR/control.sock
  device::Devices devices;            // to share, and their helpers; empty: the embedded device
  std::vector<int> device_cpus;       // CPUs that make up the embedded device; empty: all this process may use
  std::string executor;               // the executor program; empty: no OpenCL
  std::string opencl_library;         // the vendor's OpenCL library; empty: the first that works
  Duration kernel_timeout{};          // a vGPU's executor is ended when a kernel runs longer; zero: no limit
  std::string policy;                 // initial policy; empty: the saved one, or the default
  std::vector<PortalSetup> portals;   // for tenants on other machines
  std::vector<GuestSetup> guests;     // for tenants that are virtual machines
  std::vector<PeerSetup> peers;       // nodes that run parts of launches which do not fit here
  std::optional<MemberSetup> member;  // membership of a cluster
  bool exit_when_idle = false;        // a private daemon: ends when unused for `idle_exit_after`
  Duration idle_exit_after = seconds(10);
  bool quiet = false;
  bool executors_as_owners = false;           // executors get no users of their own
  std::vector<std::string> executor_reads{};  // absolute paths; see ExecutorSetup::reads
  /// The machine's memory that the processes of one executor's user may use; zero: three quarters of it.
  Bytes executor_memory{};
  bool require_isolation = false;  // do not serve if a part of MissingIsolation is missing

  /// Runs kernels of modules in a vGPU; empty: no module service.
  std::optional<ModulesSetup> modules{};
  /// The page for browsers; empty: none.
  std::optional<DashboardSetup> dashboard{};
  /// Checks whether the addresses of portals and of the dashboard are free. Called once the folders are locked. Empty:
  /// no check.
  std::function<Status()> may_listen{};
};

/// Serves until SIGINT, SIGTERM, a shutdown request or, if enabled, idleness. Errors: kBusy if another daemon uses the
/// run folder or the state folder; kInvalidArgument for invalid options; kProtocol or kVersionMismatch for an
/// unreadable saved state; kPermissionDenied without the isolation that is required; errors of `may_listen` and of the
/// system.
Status Serve(const ServeOptions& options);

}  // namespace weir::daemon
