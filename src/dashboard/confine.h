// SPDX-License-Identifier: Apache-2.0
// Rights that the dashboard gives up once it listens, because it reads bytes from browsers.
#pragma once

namespace weir::dashboard {

/// Permanent. As platform::Confine; in addition the process cannot start programs, write, make or remove files, send
/// signals to other processes, or make sockets other than Unix sockets. Existing sockets stay usable. False, with
/// errno: this process is not confined.
bool ConfineServing();

}  // namespace weir::dashboard
