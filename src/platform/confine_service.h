// SPDX-License-Identifier: Apache-2.0
// Rights that a service gives up once it listens, because it reads bytes from strangers: the dashboard, portals and
// relays.
#pragma once

#include <sys/types.h>

namespace weir::platform {

struct ServiceRights {
  uid_t user = 0;        // becomes this process's only user and group; 0: they stay
  bool network = false;  // new sockets of the internet are allowed
};

/// Permanent. As Confine; in addition only the system calls that serving needs are allowed: the process cannot start
/// programs, write, make or remove files, send signals to other processes, or make sockets other than Unix sockets.
/// Existing sockets stay usable, also for accepting connections; since Linux 6.7 they can't be connected to another
/// address. Call it before the first thread is started. False, with errno: this process is not confined.
bool ConfineService(const ServiceRights& rights = {});

}  // namespace weir::platform
