// SPDX-License-Identifier: Apache-2.0
// Relays to the cluster's peers, and the file that lists them for executors (proto/peer_list.h). A relay runs while its
// peer is offered. Page: docs/partition.md, "Peers through the manager"
//
//   offered ──a token for it, or none is needed──▶ relay runs ──offered no more──▶ not listed ──10 s──▶ relay ended
//                                                     ▲────────────offered again───────┘
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/helper_setup.h"
#include "daemon/supervised_process.h"

namespace weir::daemon {

/// A peer as the cluster's manager reports it.
struct OfferedNode {
  std::string node;     // its name
  std::string address;  // HOST:PORT
  std::string vgpu;
  bool plain = false;
  std::uint64_t room_bytes = 0, threads = 0;
};

struct PeerRelayStatus {
  OfferedNode offered;
  std::string socket;   // of the relay; empty: no relay runs
  std::string why_not;  // why no relay runs, as text
};

inline constexpr Duration kRelayLingers = seconds(10);

class PeerRelays {
 public:
  /// `user`: of the relays; 0: the daemon's. `lingers`: how long a relay runs after its peer is no longer offered.
  PeerRelays(boost::asio::io_context& loop, std::string run_dir, PeersSetup setup, uid_t user = 0,
             Duration lingers = kRelayLingers);
  ~PeerRelays();
  PeerRelays(const PeerRelays&) = delete;
  PeerRelays& operator=(const PeerRelays&) = delete;

  /// Replaces the list of offered peers. kInvalidArgument: a name or address is malformed; the list is then unchanged.
  Status Set(const std::vector<OfferedNode>& offered);
  [[nodiscard]] std::vector<PeerRelayStatus> List() const;

 private:
  struct Relay {
    OfferedNode offered;
    std::string socket, token;
    std::unique_ptr<SupervisedProcess> process;
    std::string why_not;
    bool listed = true;
    Instant gone{};  // when it left the list
  };
  void Start(Relay& relay);
  void End(Relay& relay);
  void WriteList() const;
  void EndRemoved(Instant now);

  boost::asio::io_context& loop_;
  const std::string run_dir_;
  const PeersSetup setup_;
  const uid_t user_;
  const Duration lingers_;
  std::map<std::string, Relay> relays_;  // by the node's name
  boost::asio::steady_timer timer_;
};

}  // namespace weir::daemon
