// SPDX-License-Identifier: Apache-2.0
// The executor of one vGPU: takes its clients' connections, a session each, and ends when nobody has been there for a
// while, or when a kernel has not ended for too long.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "core/partition/plan.h"
#include "opencl/executor/peers.h"
#include "platform/fd.h"

namespace weir::opencl {

struct ExecutorOptions {
  std::string attach;                                          // the vGPU's attach socket; empty: passes no gate
  std::string vgpu;                                            // its name, for people
  platform::Fd listener;                                       // where clients connect
  uid_t owner = 0;                                             // who may, beside root
  std::string library;                                         // the vendor's; empty: the first that the system names
  std::string device{};                                        // number in the library, UUID or PCI address; empty: 0
  bool copies = false;                                         // treat the device as one with memory of its own
  core::PartitionMode partition = core::PartitionMode::kAuto;  // elastic: what doesn't fit the device runs in parts
  PeerSources peers;                                           // executors that may run parts
  double copy_bytes_per_s = 0;  // elastic: of a link to the device that is modelled; 0: as fast as it goes
  Duration idle_exit_after = seconds(10);
  Duration kernel_timeout{};  // zero: none
};

/// Until it is idle, or told to end by SIGTERM. Errors: no driver, no such device.
Status RunExecutor(ExecutorOptions options);

}  // namespace weir::opencl
