// SPDX-License-Identifier: Apache-2.0
// The node's end of OpenCL from other machines (docs/network.md): authenticates connections and acts as a local client
// of the vGPU's executor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"

namespace weir::remote {

struct PortalOptions {
  /// Returns the next connection, or an empty descriptor if none is pending. Never blocks.
  std::function<Result<platform::Fd>()> accept;
  int listener = -1;  // readable when a connection is pending
  /// Authenticates a connection on its own thread, in bounded time. With certificates, peer_name() of the stream is the
  /// vGPU.
  std::function<Result<std::unique_ptr<net::Stream>>(platform::Fd)> identify;
  bool plain = false;     // no certificates: a client may use the vGPU that its Hello names
  std::string executors;  // folder of the executors' sockets, NAME.sock
  // The daemon's socket that lists vGPUs with a drain request; empty: there are no drain requests
  std::string asks = {};
  int stop = -1;    // readable: end
  int parent = -1;  // readable: accept no new connections, and end when the last one has closed; -1: never
  std::function<void()> close_listener = {};
  bool quiet = false;
};
/// Runs until `stop` is readable, then closes all connections.
Status RunPortal(PortalOptions options);

}  // namespace weir::remote
