// SPDX-License-Identifier: Apache-2.0
// The node daemon as one call: what `weir serve` runs. It never calls a GPU API.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/helper_setup.h"
#include "daemon/node.h"

namespace weir::daemon {

struct ServeOptions {
  std::string run_dir;                // sockets; empty: platform::DefaultRunDir()
  std::string state_dir;              // what survives a restart; empty: platform::DefaultStateDir()
  std::string socket;                 // control socket; empty: RUN_DIR/control.sock
  std::vector<DeviceSetup> devices;   // that it shares; empty: the embedded one
  std::vector<int> device_cpus;       // CPUs that make up the embedded device; empty: all this process may use
  std::string executor;               // the program that runs OpenCL for a vGPU; empty: there is no OpenCL
  std::string opencl_library;         // the vendor's; empty: the first that works
  Duration kernel_timeout{};          // a kernel that runs longer costs its vGPU its executor; zero: none does
  std::string policy;                 // to start with; empty: the saved one, else the default
  std::vector<PortalSetup> portals;   // by which tenants on other machines come
  std::vector<GuestSetup> guests;     // virtual machines that are tenants
  std::vector<PeerSetup> peers;       // that run parts of what does not fit here
  std::optional<MemberSetup> member;  // of a cluster
  bool exit_when_idle = false;        // a private daemon: ends when nobody has used it for `idle_exit_after`
  Duration idle_exit_after = seconds(10);
  bool quiet = false;

  /// Runs kernels of modules in a vGPU; none: nobody does.
  std::optional<ModulesSetup> modules{};
  /// Emulate devices.
  std::vector<EmulatorSetup> emulators{};
  /// Watches the memory of devices that are real GPUs.
  std::vector<GpuMemorySetup> gpu_memory{};
  std::vector<AccountSetup> accounts{};
  /// Whether the portals' addresses can be listened on. Called once the folders are this daemon's. Empty: not checked.
  std::function<Status()> may_listen{};
};

/// This machine's CPUs, with Mesa's software renderer and PoCL.
DeviceSetup EmbeddedDevice();

/// Serves until SIGINT, SIGTERM, a shutdown request, or idleness if asked for. Errors: kBusy when another daemon uses
/// the run folder or the state folder, kInvalidArgument for options that make no sense, kProtocol or kVersionMismatch
/// for a saved state that can't be read, those of `may_listen`, those of the system otherwise.
Status Serve(const ServeOptions& options);

}  // namespace weir::daemon
