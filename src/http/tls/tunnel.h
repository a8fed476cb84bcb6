// SPDX-License-Identifier: Apache-2.0
// Carries HTTP through TLS. The server and the client of http/ speak over sockets of this machine; a tunnel joins such
// a socket with an authenticated stream to another machine, so that neither knows TLS.
//
//   http::Server ◀── socket pair ──▶ tunnel ◀══ TLS ══▶ tunnel ◀── socket pair ──▶ http::AskOver
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "net/stream.h"
#include "platform/fd.h"

namespace weir::http::tls {

/// For how long the other side of a stream may read nothing while bytes for it wait.
inline constexpr Duration kTunnelPatience = seconds(30);

/// Carries bytes in both directions until either side has ended and what it sent is delivered, or the other side is
/// gone, or has read nothing for `patience`. Keeps at most 64 KiB of each direction. Blocks; `stream.Shutdown()` in
/// another thread ends it.
void RunTunnel(net::Stream& stream, const platform::Fd& local, Duration patience = kTunnelPatience);

struct SocketPair {
  platform::Fd here, there;
};
Result<SocketPair> MakeSocketPair();

}  // namespace weir::http::tls
