// SPDX-License-Identifier: Apache-2.0
// The executors elsewhere among which a session may have a launch cut, each joined when a launch first wants it.
//
//   not joined ──Join──▶ joined ──Lost──▶ shunned for a while, twice as long each time in succession ──▶ not joined
//                          └─ Kept: what was held against it is forgotten
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/partition/choice.h"
#include "core/partition/plan.h"
#include "opencl/executor/peer.h"

namespace weir::opencl {

class Peers {
 public:
  /// `paths`: sockets; the first is node 1.
  Peers(const std::vector<std::string>& paths, const std::atomic<bool>& stop);

  /// Those that are not joined and not shunned. `ours`: this executor's device, which is asked for where there are any.
  void Join(const std::function<proto::cl::DeviceFacts()>& ours);
  /// Has the part kernels of a program built by all that are joined, while ours are.
  void Prepare(const PartProgram& program);
  /// As the planner sees those that are joined. `group_s`: what a work-group takes of our device's time.
  [[nodiscard]] std::vector<core::PeerView> Views(double group_s) const;
  /// Null: it was lost.
  [[nodiscard]] Peer* Of(NodeId node) const { return SeatOf(node).peer.get(); }
  /// It is of no more use: what was its part runs elsewhere.
  void Lost(NodeId node, const Error& why);
  void Kept(NodeId node) { trust_.Kept(node); }
  /// What it has begun is not waited for; nothing is held against it.
  void Leave(NodeId node) { SeatOf(node).peer.reset(); }

 private:
  struct Seat {
    std::string path;
    std::unique_ptr<Peer> peer;
  };
  Seat& SeatOf(NodeId node) { return seats_[node.value - 1]; }
  [[nodiscard]] const Seat& SeatOf(NodeId node) const { return seats_[node.value - 1]; }

  const std::atomic<bool>& stop_;
  std::vector<Seat> seats_;
  core::NodeChoice trust_;
};

}  // namespace weir::opencl
