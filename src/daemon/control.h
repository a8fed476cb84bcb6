// SPDX-License-Identifier: Apache-2.0
// The control API (docs/protocol/control-api.md): requests in, replies out, the node in between.
#pragma once

#include <functional>
#include <string>

#include "daemon/node.h"
#include "daemon/peer_relays.h"
#include "http/message.h"

namespace weir::daemon {

struct ControlContext {
  std::string run_dir;
  std::string state_dir;
  bool is_private = false;
  Instant started;
  std::function<void()> stop;
  PeerRelays* peers = nullptr;  // null: this daemon wants nothing from other nodes
};

class Control {
 public:
  Control(Node& node, ControlContext context) : node_(node), context_(std::move(context)) {}
  /// Never throws: what goes wrong becomes an error reply.
  http::Reply Handle(const http::Request& request) noexcept;

 private:
  Node& node_;
  ControlContext context_;
};

/// Prometheus text of everything the node knows.
std::string MetricsText(Node& node);

}  // namespace weir::daemon
