// SPDX-License-Identifier: Apache-2.0
// The host's end of a virtual machine's port: a portal whose connections are the streams of that port. All streams
// belong to one vGPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "platform/file_requests.h"
#include "remote/portal.h"

namespace weir::remote {

/// The kind of `path`.
enum class GuestWay {
  kListen,   // a socket on which this portal listens and to which the hypervisor connects the guest's port
  kConnect,  // a socket on which the hypervisor listens, or a terminal
  kMemory,   // a file of memory that is shared with the guest (memory_line.h)
};

struct GuestPortalOptions {
  std::string path;
  GuestWay way = GuestWay::kListen;
  std::uint64_t memory_bytes = 0;  // size of a new file; 0: kGuestMemoryBytes
  std::string vgpu;                // used instead of the name that the guest sends
  std::function<Result<platform::Fd>()> open =
      {};                                // opens `path`, except with kListen; empty: with this process's rights
  std::function<Status()> confine = {};  // called when it listens, before the first thread is started
};
/// What `open` opens.
platform::OfferedFile OfferedFileOf(const GuestPortalOptions& guest);
/// Runs until `portal.stop` is readable. `portal` is used as in RunPortal, except that `accept`, `listener` and
/// `identify` are set here. Returns an error if it cannot listen.
Status RunGuestPortal(const GuestPortalOptions& guest, PortalOptions portal);

}  // namespace weir::remote
