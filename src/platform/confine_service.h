// SPDX-License-Identifier: Apache-2.0
// Rights that a service gives up once it listens, because it reads bytes from strangers: the dashboard and the portal.
#pragma once

namespace weir::platform {

/// Permanent. As Confine; in addition the process cannot start programs, write, make or remove files, send
/// signals to other processes, or make sockets other than Unix sockets. Existing sockets stay usable, also for
/// accepting connections. Call it before the first thread is started. False, with errno: this process is not confined.
bool ConfineService();

}  // namespace weir::platform
