// SPDX-License-Identifier: Apache-2.0
// The node's end of OpenCL from other machines (docs/network.md): lets in who may, and is to that vGPU's executor what
// a local client is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"

namespace weir::remote {

struct PortalOptions {
  /// The next connection, or an empty descriptor when there is none now. Never blocks.
  std::function<Result<platform::Fd>()> accept;
  int listener = -1;  // readable when accept() would give one
  /// Finds out who it is: on the connection's own thread, in bounded time. Where certificates say who, peer_name()
  /// does.
  std::function<Result<std::unique_ptr<net::Stream>>(platform::Fd)> identify;
  bool plain = false;     // there are no certificates: everybody is whoever they say
  std::string executors;  // folder of the executors' sockets, NAME.sock
  std::string asks = {};  // the daemon's socket that says which vGPUs are to leave; empty: none ever is
  int stop = -1;          // readable: end
  int parent = -1;        // readable: let nobody new in, and end when nobody is connected; -1: never
  std::function<void()> close_listener = {};
  bool quiet = false;
};
/// Until told to stop. Connections that are open then are cut.
Status RunPortal(PortalOptions options);

}  // namespace weir::remote
