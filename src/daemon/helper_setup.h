// SPDX-License-Identifier: Apache-2.0
// The settings of the programs that a daemon keeps running beside itself, and the command lines that start them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/supervised_process.h"

namespace weir::daemon {

/// A portal: the entry for tenants on other machines (docs/network.md).
struct PortalSetup {
  std::string program;   // weir-portal
  std::string listen;    // HOST:PORT
  std::string keys_dir;  // empty: unauthenticated connections
  bool quiet = false;
};

/// A portal that serves the programs of one virtual machine (docs/network.md).
struct GuestSetup {
  enum class Way { kListen, kConnect, kMemory };
  std::string program;  // weir-portal
  std::string path;     // the socket behind the guest's serial port, or the file that holds its memory
  std::string vgpu;     // the virtual machine's vGPU
  Way way = Way::kListen;
  std::uint64_t memory_bytes = 0;  // size of a memory file that does not exist yet; 0: the portal's default
  bool quiet = false;
};

/// A relay to a peer that may run parts of launches which do not fit here (docs/partition.md).
struct PeerSetup {
  std::string program;  // weir-relay
  std::string node;     // HOST:PORT
  std::string token;    // file; empty: an unauthenticated connection to `vgpu`
  std::string vgpu;
};

/// Relays to all nodes of the cluster that offer to be peers.
struct PeersSetup {
  std::string program;  // weir-relay
  std::string tokens;   // a folder with a NODE.token for each node, or one file for all; empty: no tokens
  bool plain = false;   // also connect to nodes that need no token
  [[nodiscard]] bool wanted() const { return plain || !tokens.empty(); }
};

/// A vGPU that runs parts of other nodes' launches.
struct OfferSetup {
  std::string vgpu;    // empty: nothing is offered
  std::string host;    // address at which other nodes reach this one
  bool plain = false;  // through the unauthenticated portal
};

/// Membership of a cluster (docs/cluster.md).
struct MemberSetup {
  std::string program;   // weir-member; not used if the daemon starts a module service
  std::string managers;  // HOST:PORT,...
  std::string name;      // this node's name
  std::string token;     // file; empty: none
  bool quiet = false;
  bool modules = true;     // run modules that the manager assigns
  std::string executor{};  // the program that describes the device, for parts
  std::string library{};   // the vendor's OpenCL library; empty: the first that works
  OfferSetup offer{};
  PeersSetup peers{};
};

/// The module service (docs/modules.md), a tenant of one vGPU.
struct ModulesSetup {
  std::string program;  // weir-modules
  std::string vgpu;
  std::string store;                   // folder of blobs
  std::string state_file;              // file with the registered modules
  std::vector<std::string> options{};  // further command-line options of weir-modules
  std::string home{};                  // hosts run as the owner of this folder; empty: as the daemon's user
  std::vector<std::string> groups{};   // ControlGroups::Folders with the groups of the users of executors
};

/// The page for browsers (docs/dashboard.md).
struct DashboardSetup {
  std::string program;  // weir-dashboard
  std::string listen;   // HOST:PORT
  bool plain = false;   // no token is asked for
  bool read_only = false;
  bool quiet = false;
};

/// `run_dir` and `control` are the daemon's run folder and control socket; `parent` is its pid.
std::vector<std::string> ArgvOf(const PortalSetup& setup, const std::string& run_dir, int parent);
std::vector<std::string> ArgvOf(const GuestSetup& setup, const std::string& run_dir, int parent);
std::vector<std::string> ArgvOf(const MemberSetup& setup, const std::string& run_dir, const std::string& control,
                                int parent);
std::vector<std::string> ArgvOf(const DashboardSetup& setup, const std::string& run_dir, const std::string& control,
                                int parent);
std::vector<std::string> ArgvOf(const PeerSetup& setup, const std::string& socket, int parent);
/// `member`: the membership of the node; null: none. The module service is then the member as well.
std::vector<std::string> ArgvOf(const ModulesSetup& setup, const MemberSetup* member, const std::string& run_dir,
                                const std::string& control, int parent);

/// What the service may do as `user`; 0: as the daemon's user. The programs know the files by their order.
ServiceRights RightsOf(const PortalSetup& setup, uid_t user);
ServiceRights RightsOf(const GuestSetup& setup, uid_t user);
ServiceRights RightsOf(const PeerSetup& setup, uid_t user);

/// The file that keeps the dashboard's token, so that a page continues after a restart.
std::string DashboardTokenFile(const std::string& run_dir);

/// The socket of the relay to the peer number `index`.
std::string PeerSocket(const std::string& run_dir, std::size_t index);
/// The file that lists the cluster's peers.
std::string PeerListOf(const std::string& run_dir);
/// The sockets of the relays to the peers 0 to `count` - 1.
std::vector<std::string> PeerSockets(const std::string& run_dir, std::size_t count);

}  // namespace weir::daemon
