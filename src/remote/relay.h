// SPDX-License-Identifier: Apache-2.0
// The tenant's end of OpenCL from another machine (docs/network.md): answers clients in an executor's place and carries
// what they say to the node.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/stream.h"
#include "platform/fd.h"
#include "proto/relay_control.h"

namespace weir::remote {

struct RelayOptions {
  platform::Fd listener;      // where clients connect
  platform::Fd control = {};  // where it is asked to move (proto/relay_control.h); empty: it never is
  /// A new stream to a node, its certificate checked; its errors are told to whoever wanted to connect.
  std::function<Result<std::unique_ptr<net::Stream>>(const proto::MoveRequest&)> connect;
  proto::MoveRequest node;  // the first
  std::string program;      // for people
  pid_t parent = 0;         // ends when this process has and nobody is connected; 0: never by itself
  /// Only children of `parent` may connect, whichever user they run as: a daemon's executors. Else this user and root.
  bool for_children = false;
  std::function<void()> when_ready = {};  // called when the node has let it in
  /// Moves its programs by `control`, when their node asks for that (docs/migration.md); empty: they stay.
  std::vector<std::string> when_asked = {};
};
/// Connects once, to see whether it may, and serves. The error is why it may not, or why it can't go on.
Status RunRelay(RelayOptions options);

}  // namespace weir::remote
