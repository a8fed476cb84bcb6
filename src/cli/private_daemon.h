// SPDX-License-Identifier: Apache-2.0
// The daemon that `weir run` starts for itself when none runs: it lives in the user's run folder and ends when unused.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "cli/places.h"

namespace weir::cli {

/// How long after its last tenant a private daemon ends.
inline constexpr Duration kPrivateIdle = seconds(10);

/// A daemon that has crashed, or is being restarted, is waited for this long.
inline constexpr Duration kReturnLimit = seconds(10);

/// Makes sure that a daemon answers at `places.socket`. When none does, a private one is started, but for two cases:
/// `vgpu` names a vGPU, which a private daemon does not have, or a daemon that stays had the run folder and has
/// crashed. Then the call waits for that daemon. Of several callers at once one starts the private daemon, the others
/// wait. A named socket where nobody answers, or where something else does, is an error.
Status EnsureDaemon(const Places& places, const std::string& vgpu = {});

/// Starts one and waits until it answers; the caller holds the run folder's lock. The daemon becomes a child of init,
/// not of this process: the program that `weir run` turns into must not find a child it never made.
Status StartPrivateDaemon(const Places& places);

}  // namespace weir::cli
