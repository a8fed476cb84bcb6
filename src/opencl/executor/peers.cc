// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/peers.h"

#include <cstdio>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

constexpr Duration kPeerAgain = seconds(10);
/// Of copies to and from a device there, of which nothing is known.
constexpr double kPeerCopyBytesPerS = 8e9;

}  // namespace

Peers::Peers(const std::vector<std::string>& paths, const std::atomic<bool>& stop)
    : stop_(stop), trust_({.shun = kPeerAgain}) {
  std::vector<NodeId> nodes;
  for (const std::string& path : paths) {
    seats_.push_back({.path = path, .peer = nullptr});
    nodes.push_back(NodeId{seats_.size()});
  }
  trust_.SetNodes(nodes);
}

void Peers::Join(const std::function<proto::cl::DeviceFacts()>& ours) {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const NodeId node{i + 1};
    if (seats_[i].peer != nullptr || trust_.Shunned(platform::Now(), node)) continue;
    auto joined = Peer::Join(seats_[i].path, ours(), stop_);
    if (joined)
      seats_[i].peer = std::move(*joined);
    else
      Lost(node, joined.error());
  }
}

void Peers::Prepare(const PartProgram& program) {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (seats_[i].peer == nullptr) continue;
    if (const Status status = seats_[i].peer->Prepare(program); !status) Lost(NodeId{i + 1}, status.error());
  }
}

std::vector<core::PeerView> Peers::Views(double group_s) const {
  std::vector<core::PeerView> views;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const Peer* const peer = seats_[i].peer.get();
    if (peer == nullptr) continue;
    views.push_back(
        {.id = NodeId{i + 1},
         .device = {.room = {peer->room()},
                    .total = {peer->room()},
                    .in_bytes_per_s = kPeerCopyBytesPerS,
                    .out_bytes_per_s = kPeerCopyBytesPerS,
                    .group_s = group_s * peer->slowness()},
         .link = {.bytes_per_s = peer->bytes_per_s(), .latency = peer->latency(), .stretch = microseconds(1)}});
  }
  return views;
}

void Peers::Lost(NodeId node, const Error& why) {
  std::fprintf(stderr, "weir-executor: no parts elsewhere: %s\n", why.message.c_str());
  Leave(node);
  trust_.Failed(platform::Now(), node);
}

}  // namespace weir::opencl
