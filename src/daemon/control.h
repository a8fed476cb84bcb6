// SPDX-License-Identifier: Apache-2.0
// The control API (docs/protocol/control-api.md): requests in, replies out, the node in between.
#pragma once

#include <functional>
#include <string>

#include "daemon/node.h"
#include "daemon/peer_relays.h"
#include "daemon/state_saver.h"
#include "daemon/supervised_process.h"
#include "http/server.h"

namespace weir::daemon {

/// What the control API needs beside the node.
struct ControlContext {
  std::string run_dir;
  std::string state_dir;
  bool is_private = false;
  Instant started;
  std::function<void()> stop;
  PeerRelays* peers = nullptr;  // null: this daemon takes no peers from a cluster
  StateSaver* saver = nullptr;  // null: a change needs no saving before its reply
  /// The supervised processes that the status lists; null: none.
  const std::vector<std::unique_ptr<SupervisedProcess>>* kept = nullptr;
  std::vector<std::string> with_account{};  // the devices whose driver's account a supervised process reports
  std::string keys_dir{};                   // the folder with the keys of the tokens for other machines
  std::int64_t started_utc_ms = 0;          // since 1970; set by Control
};

class Control {
 public:
  Control(Node& node, ControlContext context);
  /// Never throws: a failure becomes an error reply.
  http::Reply Handle(const http::Request& request) noexcept;
  /// Responds once the changes that the request made are durable. If saving fails, the reply is the disk's error: the
  /// change takes effect, but a restart would lose it. A client that hangs up meanwhile is not waited for.
  void Answer(const http::Request& request, const http::Respond& respond);

 private:
  Node& node_;
  ControlContext context_;
};

/// The bounds of the control socket.
http::Limits ControlLimits();

/// Parses the body of `PUT /v1/peers`: the peers that the cluster's member reports.
Result<std::vector<OfferedNode>> OfferedNodesFrom(std::string_view text);

}  // namespace weir::daemon
