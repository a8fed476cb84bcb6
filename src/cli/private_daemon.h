// SPDX-License-Identifier: Apache-2.0
// The private daemon that `weir run` starts if no daemon runs. It uses the user's run folder and ends when it is
// unused.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "cli/common/places.h"

namespace weir::cli {

/// A private daemon ends this long after its last tenant.
inline constexpr Duration kPrivateIdle = seconds(10);

/// How long to wait for a daemon that has crashed or is being restarted.
inline constexpr Duration kReturnLimit = seconds(10);

/// Ensures that a daemon answers at `places.socket`. If none does, a private one is started, except in two cases:
/// `vgpu` names a vGPU, which a private daemon does not have, or a daemon that is not private used the run folder and
/// has crashed. The call then waits for that daemon. Of several callers at once, one starts the private daemon and the
/// others wait. If the socket is named, by a flag or WEIR_SOCKET, no private daemon is started: the call waits for a
/// daemon that used the socket's folder and has crashed, and otherwise fails.
Status EnsureDaemon(const Places& places, const std::string& vgpu = {});

/// Starts a private daemon and waits until it answers. The caller must hold the run folder's lock. The daemon becomes a
/// child of init: the program that `weir run` executes must not have an unknown child.
Status StartPrivateDaemon(const Places& places);

}  // namespace weir::cli
