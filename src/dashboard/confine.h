// SPDX-License-Identifier: Apache-2.0
// Rights that the dashboard gives up once it listens, because it reads bytes from browsers.
#pragma once

namespace weir::dashboard {

/// For good: as platform::Confine, and also no program is started, no file is written, made or removed, no signal is
/// sent to another process, and no socket is made but Unix sockets. The present sockets go on. False, with errno: this
/// process is not confined.
bool ConfineServing();

}  // namespace weir::dashboard
