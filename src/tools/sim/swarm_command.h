// SPDX-License-Identifier: Apache-2.0
// weir sim swarm: random scenarios, one for each seed.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/common/session.h"

namespace weir::cli {

struct SwarmFlags {
  std::int64_t seeds = 100;
  std::int64_t from = 1;
  std::int64_t seed = 0;  // play only this seed and print everything that was drawn; 0: play `seeds` seeds
};

/// Returns the exit status: 1 if a check has objected.
Result<int> Swarm(const Session& session, const SwarmFlags& flags);

}  // namespace weir::cli
