// SPDX-License-Identifier: Apache-2.0
// The executor of one vGPU. Accepts its clients' connections, with a session for each. Ends when it was idle for a
// while, or when a kernel has run for too long.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "core/partition/plan.h"
#include "opencl/channel/handshake.h"
#include "opencl/executor/peers.h"
#include "platform/fd.h"

namespace weir::opencl {

struct ExecutorOptions {
  std::string attach;     // the vGPU's attach socket; empty: there is no gate
  std::string vgpu;       // its name, for messages
  platform::Fd listener;  // clients connect here
  Clients clients;        // who may connect
  std::string library;    // the vendor's; empty: the first that the system lists
  std::string device{};   // number in the library, UUID or PCI address; empty: 0
  bool copies = false;    // treat the device as one with memory of its own
  // With elastic memory, launches that do not fit the device run in parts.
  core::PartitionMode partition = core::PartitionMode::kAuto;
  PeerSources peers;            // executors that may run parts
  double copy_bytes_per_s = 0;  // with elastic memory: of a modelled link to the device; 0: not limited
  Duration idle_exit_after = seconds(10);
  Duration kernel_timeout{};              // zero: none
  Duration build_timeout = seconds(600);  // of a program, by the driver's compiler
};

/// Runs until it is idle or receives SIGTERM. Errors: no driver, or no such device.
Status RunExecutor(ExecutorOptions options);

}  // namespace weir::opencl
