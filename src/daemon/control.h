// SPDX-License-Identifier: Apache-2.0
// The control API (docs/protocol/control-api.md): requests in, replies out, the node in between.
#pragma once

#include <functional>
#include <string>

#include "daemon/kept_process.h"
#include "daemon/node.h"
#include "daemon/peer_relays.h"
#include "daemon/state_saver.h"
#include "http/server.h"

namespace weir::daemon {

struct ControlContext {
  std::string run_dir;
  std::string state_dir;
  bool is_private = false;
  Instant started;
  std::function<void()> stop;
  PeerRelays* peers = nullptr;                                      // null: this daemon wants nothing from other nodes
  StateSaver* saver = nullptr;                                      // null: changes are durable once they are made
  const std::vector<std::unique_ptr<KeptProcess>>* kept = nullptr;  // null: none
};

class Control {
 public:
  Control(Node& node, ControlContext context) : node_(node), context_(std::move(context)) {}
  /// Never throws: a failure becomes an error reply.
  http::Reply Handle(const http::Request& request) noexcept;
  /// Responds once the changes that the request made are durable. An error of the disk is the reply to a request whose
  /// change takes effect and would be lost by a restart.
  void Answer(const http::Request& request, const http::Respond& respond);

 private:
  Node& node_;
  ControlContext context_;
};

/// The body of `PUT /v1/peers`: nodes that the cluster's member tells of.
Result<std::vector<OfferedNode>> OfferedNodesFrom(std::string_view text);

/// Prometheus text of everything the node knows.
std::string MetricsText(Node& node);

}  // namespace weir::daemon
