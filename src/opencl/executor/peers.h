// SPDX-License-Identifier: Apache-2.0
// The executors elsewhere among which a session may have a launch cut: those that were named by hand, and those of a
// list that its daemon keeps (proto/peer_list.h). For each launch they are chosen as Algorithm 1 does
// (core/partition/known_nodes.h), and joined when they are first chosen.
//
//   not joined ──chosen──▶ joined ──Lost──▶ shunned for a while, twice as long each time in succession ──▶ not joined
//        ▲                   │ └─ Kept: what was held against it is forgotten
//        └── no longer listed┘
#pragma once

#include <sys/stat.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/partition/known_nodes.h"
#include "core/partition/plan.h"
#include "opencl/executor/peer.h"

namespace weir::opencl {

/// Where they are found.
struct PeerSources {
  std::vector<std::string> named;  // sockets; the first is node 1. Their room and load are not known
  std::string list;                // the file; empty: there is none
};

class Peers {
 public:
  Peers(const PeerSources& sources, const std::atomic<bool>& stop);

  /// Chooses those for a launch that needs so much, and joins them. `ours`: this executor's device, which is asked for
  /// where there are any.
  void Join(std::uint64_t need, const std::function<proto::cl::DeviceFacts()>& ours);
  /// Has the part kernels of a program built by all that were chosen, while ours are.
  void Prepare(const PartProgram& program);
  /// As the planner sees those that were chosen. `group_s`: what a work-group takes of our device's time.
  [[nodiscard]] std::vector<core::PeerView> Views(double group_s) const;
  /// Null: it was lost.
  [[nodiscard]] Peer* Of(NodeId node) const;
  /// It is of no more use: what was its part runs elsewhere.
  void Lost(NodeId node, const Error& why);
  void Kept(NodeId node) { choice_.Kept(node); }
  /// What it has begun is not waited for; nothing is held against it.
  void Leave(NodeId node);

 private:
  struct Seat {
    std::string path;
    core::KnownNode known;
    bool listed = true;
    std::unique_ptr<Peer> peer;
  };
  void ReadList();
  void TakeList(const std::string& text);
  bool Seated(NodeId node, const std::function<proto::cl::DeviceFacts()>& ours);

  const std::atomic<bool>& stop_;
  const std::string list_;
  struct stat list_read_ {};  // of the file that was read last
  std::map<NodeId, Seat> seats_;
  std::uint64_t last_id_ = 0;  // never given to another
  std::vector<NodeId> chosen_;
  core::NodeChoice choice_;
};

}  // namespace weir::opencl
