// SPDX-License-Identifier: Apache-2.0
// The host's end of a virtual machine's port: a portal whose connections are the streams of that port, all of them one
// vGPU's.
#pragma once

#include <string>

#include "remote/portal.h"

namespace weir::remote {

struct GuestPortalOptions {
  std::string path;      // of the socket that the hypervisor leads the guest's port to
  bool connect = false;  // the hypervisor listens there, or it is a terminal; else this portal listens
  std::string vgpu;      // whatever the guest says
};
/// `portal`: as RunPortal wants it, but for how connections come and who they are. Until told to stop. Errors: that it
/// can't listen.
Status RunGuestPortal(const GuestPortalOptions& guest, PortalOptions portal);

}  // namespace weir::remote
