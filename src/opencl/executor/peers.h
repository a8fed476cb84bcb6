// SPDX-License-Identifier: Apache-2.0
// The remote executors that may run parts of a session's launches: those given explicitly, and those of a list that the
// daemon maintains (proto/peer_list.h). They are chosen for each launch by Algorithm 1 (core/partition/known_nodes.h),
// and joined when first chosen.
//
//   not joined ──chosen──▶ joined ──Lost──▶ back off, twice as long each time in succession ──▶ not joined
//        ▲                   │ └─ Succeeded: resets the back-off
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

/// The sources of peers.
struct PeerSources {
  std::vector<std::string> named;  // sockets; the first is node 1. Their memory and load are unknown
  std::string list;                // the list's file; empty: there is none
};

class Peers {
 public:
  Peers(const PeerSources& sources, const std::atomic<bool>& stop);

  /// Chooses peers for a launch that needs `need` bytes, and joins them. `ours`: returns this executor's device; called
  /// only if there are peers.
  void Join(std::uint64_t need, const std::function<proto::cl::DeviceFacts()>& ours);
  /// Makes all chosen peers build a program's part kernels while this executor builds its own.
  void Prepare(const PartProgram& program);
  /// The planner's view of the chosen peers. `group_s`: time of a work-group on this device.
  [[nodiscard]] std::vector<core::PeerView> Views(double group_s) const;
  /// Null: the peer was lost.
  [[nodiscard]] Peer* Of(NodeId node) const;
  /// The peer is unusable: its parts run elsewhere.
  void Lost(NodeId node, const Error& why);
  void Succeeded(NodeId node) { choice_.Succeeded(node); }
  /// Drops the peer, whose current part is not awaited. Does not cause a back-off.
  void Leave(NodeId node);

 private:
  struct Seat {
    std::string path;
    core::KnownNode known;  // its `room` is unset if the peer was given explicitly
    bool listed = true;     // in the daemon's list, or given explicitly
    std::unique_ptr<Peer> peer;
  };
  void ReadList();
  void TakeList(const std::string& text);
  bool Seated(NodeId node, const std::function<proto::cl::DeviceFacts()>& ours);

  const std::atomic<bool>& stop_;
  const std::string list_;
  struct stat list_read_ {};  // state of the list's file when it was last read
  std::map<NodeId, Seat> seats_;
  std::uint64_t last_id_ = 0;  // never reused
  std::vector<NodeId> chosen_;
  core::NodeChoice choice_;
};

}  // namespace weir::opencl
