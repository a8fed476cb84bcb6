// SPDX-License-Identifier: Apache-2.0
// The host's end of a virtual machine's port: a portal whose connections are the streams of that port, all of them one
// vGPU's.
#pragma once

#include <cstdint>
#include <string>

#include "remote/portal.h"

namespace weir::remote {

/// What `path` is.
enum class GuestWay {
  kListen,   // a socket that the hypervisor leads the guest's port to: this portal listens there
  kConnect,  // the same, where the hypervisor listens, or a terminal
  kMemory,   // a file of memory that the guest has too (memory_line.h)
};

struct GuestPortalOptions {
  std::string path;
  GuestWay way = GuestWay::kListen;
  std::uint64_t memory_bytes = 0;  // of a file that isn't there; 0: kGuestMemoryBytes
  std::string vgpu;                // whatever the guest says
};
/// `portal`: as RunPortal wants it, but for how connections come and who they are. Until told to stop. Errors: that it
/// can't listen.
Status RunGuestPortal(const GuestPortalOptions& guest, PortalOptions portal);

}  // namespace weir::remote
