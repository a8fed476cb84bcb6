// SPDX-License-Identifier: Apache-2.0
// What tests of a hostile end of the gate have in common, whichever end it is.
#pragma once

#include <cstdint>

#include "gate/agent.h"
#include "platform/clock.h"

namespace weir::testing {

/// Of the data that hostile ends draw.
inline constexpr std::uint64_t kHostileSeed = 20140604;

/// True: the frame passed a gate.
inline bool PresentFrame(gate::Agent& agent) {
  const std::int64_t now_ns = platform::NowNs();
  const gate::Ticket ticket = agent.Enter(now_ns);
  agent.Leave(ticket,
              {.surface = 0, .begin_ns = now_ns, .present_ns = now_ns, .end_ns = platform::NowNs(), .gpu_ns = 1});
  return ticket.attachment != nullptr;
}

}  // namespace weir::testing
