// SPDX-License-Identifier: Apache-2.0
// The shared executor of one device: a context that is made once, and a thread with a queue of its own for each run.
// It runs native code of several tenants in one process; whoever started it believes it nothing but what its frames
// can say (modules/module_frames.h).
//
//   order ──▶ thread: module there? prepared? ──▶ execute ──▶ queue finished ──▶ Done or Failed
//                                                    └─ a signal, exit(): Crash with the run's number, and the end
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weir::modules {

struct HostOptions {
  int fd = -1;        // the socket to weir-modules
  std::string store;  // folder of blobs
  std::uint32_t device = 0;
  std::uint32_t units = 0;       // of a part of a device; 0: whole devices
  std::uint64_t keep_bytes = 0;  // of residual data; 0: a quarter of the device's memory
};

/// Until the other side closes; an error is what kept it from its work, and has been sent as a refusal.
Status RunHost(const HostOptions& options);

/// Sends the table of the module in the blob, or a refusal. Calls no OpenCL.
Status InspectModule(int fd, const std::string& store, const std::string& blob);

}  // namespace weir::modules
