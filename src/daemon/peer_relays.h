// SPDX-License-Identifier: Apache-2.0
// Relays to nodes of the cluster that run parts of launches, kept as long as these are offered, and the list of them
// that executors read (proto/peer_list.h). Page: docs/partition.md, "Peers through the manager"
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
#include "daemon/kept_process.h"

namespace weir::daemon {

/// As the cluster's manager says.
struct OfferedNode {
  std::string node;     // its name
  std::string address;  // HOST:PORT
  std::string vgpu;
  bool plain = false;
  std::uint64_t room_bytes = 0, threads = 0;
};

struct PeerRelayStatus {
  OfferedNode offered;
  std::string socket;   // of the relay; empty: there is none
  std::string why_not;  // in words
};

inline constexpr Duration kRelayLingers = seconds(10);

class PeerRelays {
 public:
  /// `lingers`: how long the relay of a node that is no longer offered is kept.
  PeerRelays(boost::asio::io_context& loop, std::string run_dir, PeersSetup setup, Duration lingers = kRelayLingers);
  ~PeerRelays();
  PeerRelays(const PeerRelays&) = delete;
  PeerRelays& operator=(const PeerRelays&) = delete;

  /// All that are offered from now on. kInvalidArgument for names that can't be, and nothing changes.
  Status Set(const std::vector<OfferedNode>& offered);
  [[nodiscard]] std::vector<PeerRelayStatus> List() const;

 private:
  struct Relay {
    OfferedNode offered;
    std::string socket, token;
    std::unique_ptr<KeptProcess> process;
    std::string why_not;
    bool listed = true;
    Instant gone{};  // since when it is not listed
  };
  void Start(Relay& relay);
  void End(Relay& relay);
  void WriteList() const;
  void EndThoseGone(Instant now);

  boost::asio::io_context& loop_;
  const std::string run_dir_;
  const PeersSetup setup_;
  const Duration lingers_;
  std::map<std::string, Relay> relays_;  // by the node's name
  boost::asio::steady_timer timer_;
};

}  // namespace weir::daemon
