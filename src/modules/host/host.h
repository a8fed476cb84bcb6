// SPDX-License-Identifier: Apache-2.0
// The shared executor of one device: one context, and a thread with its own queue for each run. It runs native code of
// several tenants in one process. weir-modules therefore trusts only what the frames of modules/module_frames.h can
// express.
//
//   order ──▶ thread: module there? prepared? ──▶ execute ──▶ queue finished ──▶ Done or Failed
//                                                    └─ a signal, exit(): Crash with the run's number, and the end
#pragma once

#include <cstdint>

#include "base/result.h"

namespace weir::modules {

struct HostOptions {
  int fd = -1;  // socket to weir-modules
  std::uint32_t device = 0;
  std::uint32_t units = 0;       // compute units of a part of a device; 0: whole devices
  std::uint64_t keep_bytes = 0;  // upper bound of residual data; 0: a quarter of the device's memory
};

/// Serves until the other side closes. An error means that the host could not start; it was sent as a RefusalFrame too.
Status RunHost(const HostOptions& options);

/// Waits for an InspectFrame, and sends the module's kernel table or a RefusalFrame. Calls no OpenCL.
Status InspectModule(int fd);

}  // namespace weir::modules
