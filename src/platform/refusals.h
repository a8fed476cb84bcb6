// SPDX-License-Identifier: Apache-2.0
// Refuses the clients that wait at a listener. Any local user may connect, faster than connections can be refused. So
// only some are refused at once, and other work of the process comes in between.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "platform/unix_socket.h"

namespace weir::platform {

inline constexpr int kRefusalsAtOnce = 32;

/// Sends `packet` as the last one to each connection that `next` returns, until it returns an empty descriptor, and
/// to at most kRefusalsAtOnce connections. True: the limit was reached, and more connections may wait.
template <typename Next>
bool RefuseWaiting(const Next& next, std::span<const std::byte> packet) {
  for (int i = 0; i < kRefusalsAtOnce; ++i) {
    Fd connection = next();
    if (!connection) return false;
    SendLastPacket(std::move(connection), packet);
  }
  return true;
}

}  // namespace weir::platform
