// SPDX-License-Identifier: Apache-2.0
// Programs that a daemon keeps running for traffic with other machines, and how they are started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::daemon {

/// A portal: by it tenants on other machines come (docs/network.md).
struct PortalSetup {
  std::string program;   // weir-portal
  std::string listen;    // HOST:PORT
  std::string keys_dir;  // empty: plain connections, which prove nothing
  bool quiet = false;
};

/// A portal by which the programs of one virtual machine come (docs/network.md).
struct GuestSetup {
  enum class Way { kListen, kConnect, kMemory };
  std::string program;  // weir-portal
  std::string path;     // of the socket that its port is led to, or of the file of its memory
  std::string vgpu;     // which it is
  Way way = Way::kListen;
  std::uint64_t memory_bytes = 0;  // of a file that isn't there; 0: what the portal takes
  bool quiet = false;
};

/// A relay to a node that may run parts of launches which don't fit here (docs/partition.md).
struct PeerSetup {
  std::string program;  // weir-relay
  std::string node;     // HOST:PORT
  std::string token;    // file; empty: a plain connection, to `vgpu`
  std::string vgpu;
};

/// Relays to whichever nodes of the cluster offer to run parts.
struct PeersSetup {
  std::string program;  // weir-relay
  std::string tokens;   // a folder with NODE.token for each, or a file for all; empty: none
  bool plain = false;   // nodes without tokens, too
  [[nodiscard]] bool wanted() const { return plain || !tokens.empty(); }
};

/// A vGPU that is offered to other nodes' launches.
struct OfferSetup {
  std::string vgpu;    // empty: none
  std::string host;    // where others reach this node
  bool plain = false;  // by the portal without keys
};

/// Membership of a cluster (docs/cluster.md).
struct MemberSetup {
  std::string program;   // weir-member
  std::string managers;  // HOST:PORT,...
  std::string name;      // of this node
  std::string token;     // file; empty: none
  bool quiet = false;
  bool modules = true;     // runs what the manager sends
  std::string executor{};  // the program that says what the device is, for parts
  std::string library{};   // the vendor's; empty: the first that works
  OfferSetup offer{};
  PeersSetup peers{};
};

/// The service for runs of modules (docs/modules.md), a tenant of a vGPU.
struct ModulesSetup {
  std::string program;  // weir-modules
  std::string vgpu;
  std::string store;                   // folder of blobs
  std::string state_file;              // which modules are registered
  std::vector<std::string> options{};  // further ones, as weir-modules takes them
};

/// Who says what is in use of a real GPU's memory (docs/memory.md, "What others hold").
struct GpuMemorySetup {
  std::string program;       // weir-gpu-memory
  std::string gpu;           // as NVML takes it: an index, a UUID or a PCI address
  std::string nvml_library;  // empty: the system's
  std::string device;        // its name here
};

/// Emulated GPUs (docs/emulated-gpu.md).
struct EmulatorSetup {
  std::string program;      // weir-emulated-gpu
  std::string description;  // of its devices: a file, or the name of one of Weir's
  std::string socket;       // where drivers connect
};

/// Tells the daemon how long each process has used devices (docs/accounting.md).
struct AccountSetup {
  std::string program;               // weir-gpu-account
  std::vector<std::string> source;   // its options that say where the account is read
  std::vector<std::string> devices;  // the daemon's names of the source's devices, in order
};

/// `run_dir`: the daemon's, whose pid is `parent`. `control`: its socket.
std::vector<std::string> ArgvOf(const PortalSetup& setup, const std::string& run_dir, int parent);
std::vector<std::string> ArgvOf(const GuestSetup& setup, const std::string& run_dir, int parent);
std::vector<std::string> ArgvOf(const MemberSetup& setup, const std::string& run_dir, const std::string& control,
                                int parent);
std::vector<std::string> ArgvOf(const PeerSetup& setup, const std::string& socket, int parent);
std::vector<std::string> ArgvOf(const ModulesSetup& setup, const std::string& run_dir, int parent);
std::vector<std::string> ArgvOf(const EmulatorSetup& setup, int parent);
std::vector<std::string> ArgvOf(const AccountSetup& setup, const std::string& control, int parent);
std::vector<std::string> ArgvOf(const GpuMemorySetup& setup, const std::string& control, int parent);

/// Where executors find the relay to the peer number `index`; the list of those that the cluster has; and the relays to
/// each of `count`.
std::string PeerSocket(const std::string& run_dir, std::size_t index);
std::string PeerListOf(const std::string& run_dir);
std::vector<std::string> PeerSockets(const std::string& run_dir, std::size_t count);

}  // namespace weir::daemon
