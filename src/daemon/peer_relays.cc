// SPDX-License-Identifier: Apache-2.0
#include "daemon/peer_relays.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "platform/clock.h"
#include "platform/files.h"
#include "proto/peer_list.h"
#include "proto/relay_control.h"

namespace weir::daemon {
namespace {

/// The name becomes part of file names and of a command line.
bool IsNodeName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name[0] != '-' && std::ranges::all_of(name, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  });
}

bool IsFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// A folder holds one token for each node. A single file serves all nodes that share one certificate authority.
std::string TokenFor(const PeersSetup& setup, const std::string& node) {
  if (!IsFolder(setup.tokens)) return setup.tokens;
  return setup.tokens + "/" + node + ".token";
}

}  // namespace

PeerRelays::PeerRelays(boost::asio::io_context& loop, std::string run_dir, PeersSetup setup, uid_t user,
                       Duration lingers)
    : loop_(loop),
      run_dir_(std::move(run_dir)),
      setup_(std::move(setup)),
      user_(user),
      lingers_(lingers),
      timer_(loop) {
  WriteList();
}

PeerRelays::~PeerRelays() { ::unlink(PeerListOf(run_dir_).c_str()); }

Status PeerRelays::Set(const std::vector<OfferedNode>& offered) {
  if (offered.size() > proto::kPeersListedMax)
    return Fail(Errc::kInvalidArgument, "at most " + std::to_string(proto::kPeersListedMax) + " nodes are taken");
  for (const OfferedNode& one : offered)
    if (!IsNodeName(one.node) || !IsNodeName(one.vgpu) || one.address.empty() || one.address[0] == '-')
      return Fail(Errc::kInvalidArgument,
                  "'" + one.node + "' with vGPU '" + one.vgpu + "' at '" + one.address + "' is not a valid node");
  const Instant now = platform::Now();
  for (auto& [name, relay] : relays_) {
    if (relay.listed) relay.gone = now;
    relay.listed = false;
  }
  for (const OfferedNode& one : offered) {
    Relay& relay = relays_[one.node];
    const bool same =
        relay.offered.address == one.address && relay.offered.plain == one.plain && relay.offered.vgpu == one.vgpu;
    relay.offered = one;
    relay.listed = true;
    if (same && relay.process != nullptr) continue;
    End(relay);
    Start(relay);
  }
  WriteList();
  EndRemoved(now);
  return Ok();
}

void PeerRelays::Start(Relay& relay) {
  const OfferedNode& node = relay.offered;
  relay.token = node.plain ? std::string() : TokenFor(setup_, node.node);
  std::string why_not;
  if (node.plain && !setup_.plain)
    why_not = "it accepts every client, which --peers-plain would have to allow";
  else if (!node.plain && setup_.tokens.empty())
    why_not = "no token for it: give --peers-token";
  else if (!node.plain && !IsFile(relay.token))
    why_not = "there is no token for it: " + relay.token + " is not there";
  if (why_not.empty()) {
    const std::string socket = run_dir_ + "/parts-" + node.node + ".sock";
    const PeerSetup setup{.program = setup_.program, .node = node.address, .token = relay.token, .vgpu = node.vgpu};
    auto process = SupervisedProcess::Start(loop_, "relay to " + node.node, ArgvOf(setup, socket, ::getpid()),
                                            RightsOf(setup, user_));
    if (process) {
      relay.process = std::move(*process);
      relay.socket = socket;
    } else {
      why_not = process.error().message;
    }
  }
  // The token file may appear later: each update looks for it again, and a problem is logged only when it changes.
  if (why_not != relay.why_not && !why_not.empty())
    std::fprintf(stderr, "weir: node %s runs no parts for this one: %s\n", node.node.c_str(), why_not.c_str());
  relay.why_not = std::move(why_not);
}

void PeerRelays::End(Relay& relay) {
  if (relay.process == nullptr) return;
  relay.process->End();
  relay.process.reset();
  ::unlink(relay.socket.c_str());
  ::unlink((relay.socket + proto::kControlSuffix).c_str());
  relay.socket.clear();
}

void PeerRelays::WriteList() const {
  std::vector<proto::ListedPeer> peers;
  for (const auto& [name, relay] : relays_)
    if (relay.listed && relay.process != nullptr)
      peers.push_back({relay.offered.room_bytes, relay.offered.threads, relay.socket});
  if (const Status status = platform::ReplaceFile(PeerListOf(run_dir_), proto::PeerListText(peers)); !status)
    std::fprintf(stderr, "weir: executors don't hear of nodes that run parts: %s\n", status.error().message.c_str());
}

void PeerRelays::EndRemoved(Instant now) {
  bool some = false;
  for (auto at = relays_.begin(); at != relays_.end();) {
    Relay& relay = at->second;
    if (!relay.listed && now - relay.gone >= lingers_) {
      End(relay);
      at = relays_.erase(at);
      continue;
    }
    some |= !relay.listed;
    ++at;
  }
  if (!some) return;
  timer_.expires_after(std::min<Duration>(lingers_, seconds(1)));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) EndRemoved(platform::Now());
  });
}

std::vector<PeerRelayStatus> PeerRelays::List() const {
  std::vector<PeerRelayStatus> all;
  for (const auto& [name, relay] : relays_)
    if (relay.listed) all.push_back({.offered = relay.offered, .socket = relay.socket, .why_not = relay.why_not});
  return all;
}

}  // namespace weir::daemon
