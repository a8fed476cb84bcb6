// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/peers.h"

#include <algorithm>
#include <cstdio>

#include "platform/clock.h"
#include "platform/files.h"
#include "proto/peer_list.h"

namespace weir::opencl {
namespace {

constexpr Duration kPeerAgain = seconds(10);
/// Assumed rate of copies to and from a peer's device, which is unknown.
constexpr double kPeerCopyBytesPerS = 8e9;
/// Limit of connections that are kept for later launches.
constexpr std::size_t kJoinedMax = 2 * core::kPlanPeersMax;

void SayLost(const Error& why) {
  std::fprintf(stderr, "weir-executor: no parts on other nodes: %s\n", why.message.c_str());
}

}  // namespace

Peers::Peers(const PeerSources& sources, const std::atomic<bool>& stop)
    : stop_(stop), list_(sources.list), choice_({.shun = kPeerAgain}) {
  for (const std::string& path : sources.named) {
    const NodeId id{++last_id_};
    seats_[id] = {.path = path, .known = {.id = id}, .listed = true, .peer = nullptr};
  }
}

void Peers::ReadList() {
  struct stat now {};
  if (list_.empty() || ::stat(list_.c_str(), &now) != 0) return;
  const auto same_time = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  if (now.st_ino == list_read_.st_ino && same_time(now.st_mtim, list_read_.st_mtim)) return;
  const auto text = platform::ReadFile(list_, proto::kPeerListBytesMax);
  if (!text) return;
  list_read_ = now;
  TakeList(*text);
}

/// A node that was removed from the list and is listed again gets a new id, so that earlier failures do not count.
void Peers::TakeList(const std::string& text) {
  for (auto& [id, seat] : seats_) seat.listed = !seat.known.room.has_value();  // peers given explicitly always stay
  for (const proto::ListedPeer& one : proto::PeersFrom(text)) {
    auto at = std::ranges::find_if(
        seats_, [&](const auto& entry) { return entry.second.known.room && entry.second.path == one.socket; });
    if (at == seats_.end()) {
      const NodeId id{++last_id_};
      at = seats_.emplace(id, Seat{.path = one.socket, .known = {.id = id}, .listed = true, .peer = nullptr}).first;
    }
    at->second.listed = true;
    at->second.known.room = Bytes{one.room_bytes};
    at->second.known.threads = one.threads;
  }
  std::erase_if(seats_, [](const auto& entry) { return !entry.second.listed; });
}

void Peers::Join(std::uint64_t need, const std::function<proto::cl::DeviceFacts()>& ours) {
  ReadList();
  chosen_.clear();
  if (seats_.empty()) return;
  std::vector<core::KnownNode> known;
  std::vector<NodeId> ids;
  for (const auto& [id, seat] : seats_) {
    known.push_back(seat.known);
    ids.push_back(id);
  }
  choice_.SetNodes(ids);
  chosen_ = core::ChooseKnown(choice_, platform::Now(), known, Bytes{need}, core::kPlanPeersMax,
                              [&](NodeId node) { return Seated(node, ours); });
  auto joined = static_cast<std::size_t>(
      std::ranges::count_if(seats_, [](const auto& entry) { return entry.second.peer != nullptr; }));
  for (auto& [id, seat] : seats_) {
    if (joined <= kJoinedMax) break;
    if (seat.peer == nullptr || std::ranges::find(chosen_, id) != chosen_.end()) continue;
    seat.peer.reset();
    --joined;
  }
}

bool Peers::Seated(NodeId node, const std::function<proto::cl::DeviceFacts()>& ours) {
  Seat& seat = seats_.at(node);
  if (seat.peer != nullptr) return true;
  auto joined = Peer::Join(seat.path, ours(), stop_);
  if (!joined) return SayLost(joined.error()), false;
  seat.peer = std::move(*joined);
  return true;
}

void Peers::Prepare(const PartProgram& program) {
  for (const NodeId node : std::vector(chosen_)) {
    Peer* const peer = Of(node);
    if (peer == nullptr) continue;
    if (const Status status = peer->Prepare(program); !status) Lost(node, status.error());
  }
}

std::vector<core::PeerView> Peers::Views(double group_s) const {
  std::vector<core::PeerView> views;
  for (const NodeId node : chosen_) {
    const Peer* const peer = Of(node);
    if (peer == nullptr) continue;
    const core::KnownNode& known = seats_.at(node).known;
    const Bytes room{std::min(peer->room(), known.room.value_or(Bytes{peer->room()}).count)};
    views.push_back(
        {.id = node,
         .device = {.room = room,
                    .total = {peer->room()},
                    .in_bytes_per_s = kPeerCopyBytesPerS,
                    .out_bytes_per_s = kPeerCopyBytesPerS,
                    .group_s = group_s * peer->slowness()},
         .link = {.bytes_per_s = peer->bytes_per_s(), .latency = peer->latency(), .stretch = microseconds(1)},
         .threads = known.threads});
  }
  return views;
}

Peer* Peers::Of(NodeId node) const {
  const auto at = seats_.find(node);
  return at != seats_.end() ? at->second.peer.get() : nullptr;
}

void Peers::Leave(NodeId node) {
  if (const auto at = seats_.find(node); at != seats_.end()) at->second.peer.reset();
}

void Peers::Lost(NodeId node, const Error& why) {
  SayLost(why);
  Leave(node);
  choice_.Failed(platform::Now(), node);
}

}  // namespace weir::opencl
