// SPDX-License-Identifier: Apache-2.0
// The tenant's end of OpenCL from another machine (docs/network.md): acts as an executor for local clients and forwards
// their messages to the node.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "net/stream.h"
#include "platform/fd.h"
#include "proto/relay_control.h"

namespace weir::remote {

struct RelayOptions {
  platform::Fd listener;      // clients connect here
  platform::Fd control = {};  // receives migration requests (proto/relay_control.h); empty: there are none
  /// Opens a stream to a node and checks its certificate. The connecting client receives its errors.
  std::function<Result<std::unique_ptr<net::Stream>>(const proto::MoveRequest&)> connect;
  proto::MoveRequest node;  // the initial node
  std::string program;      // for messages
  pid_t parent = 0;         // the relay ends when this process has ended and no client is connected; 0: never
  /// Admit only children of `parent`, of any user, as a daemon's executors need. Otherwise admit this user and root.
  bool for_children = false;
  std::function<void()> when_ready = {};  // called after the first successful handshake with the node
  /// The command that migrates the relay's programs through `control` on a drain request (docs/migration.md); empty:
  /// drain requests are only printed.
  std::vector<std::string> when_asked = {};
  /// A migration ends when the node that is left has read nothing for this long. It allows for a running kernel.
  Duration old_reads_within = seconds(30);
};
/// Connects once to verify access, then serves. Returns the reason if access is refused or the relay cannot continue.
Status RunRelay(RelayOptions options);

}  // namespace weir::remote
