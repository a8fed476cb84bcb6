// SPDX-License-Identifier: Apache-2.0
#include "daemon/helper_setup.h"

#include "proto/drain_list.h"

namespace weir::daemon {

namespace {

std::string PortFile(const std::string& run_dir, bool plain) {
  return run_dir + "/portal" + (plain ? "-plain" : "") + ".port";
}

/// The options that weir-member and weir-modules have in common.
std::vector<std::string> MembershipOf(const MemberSetup& setup, const std::string& run_dir,
                                      const std::string& control) {
  std::vector<std::string> argv{"--managers", setup.managers, "--node-name",
                                setup.name,   "--identity",   run_dir + "/member.identity"};
  if (!setup.token.empty()) argv.insert(argv.end(), {"--token", setup.token});
  if (!setup.offer.vgpu.empty() || setup.peers.wanted()) {
    argv.insert(argv.end(), {"--control", control, "--executor", setup.executor});
    if (!setup.library.empty()) argv.insert(argv.end(), {"--opencl-library", setup.library});
  }
  if (setup.peers.wanted()) argv.emplace_back("--want-parts");
  if (const OfferSetup& offer = setup.offer; !offer.vgpu.empty()) {
    argv.insert(argv.end(), {"--offer-parts", offer.vgpu, "--offer-host", offer.host, "--offer-port-file",
                             PortFile(run_dir, offer.plain)});
    if (offer.plain) argv.emplace_back("--offer-plain");
  }
  if (setup.quiet) argv.emplace_back("--quiet");
  return argv;
}

}  // namespace

std::vector<std::string> ArgvOf(const PortalSetup& setup, const std::string& run_dir, int parent) {
  std::vector<std::string> argv{setup.program,
                                "--listen",
                                setup.listen,
                                "--executors",
                                run_dir + "/opencl",
                                "--asks",
                                run_dir + "/" + proto::kPortalsSocket,
                                "--port-file",
                                PortFile(run_dir, setup.keys_dir.empty()),
                                "--parent",
                                std::to_string(parent)};
  if (setup.keys_dir.empty()) {
    argv.emplace_back("--plain");
  } else {
    argv.insert(argv.end(), {"--keys", setup.keys_dir});
  }
  if (setup.quiet) argv.emplace_back("--quiet");
  return argv;
}

std::vector<std::string> ArgvOf(const GuestSetup& setup, const std::string& run_dir, int parent) {
  constexpr const char* kWays[] = {"--guest", "--guest-at", "--guest-memory"};
  std::vector<std::string> argv{setup.program,
                                kWays[static_cast<int>(setup.way)],
                                setup.path,
                                "--vgpu",
                                setup.vgpu,
                                "--executors",
                                run_dir + "/opencl",
                                "--asks",
                                run_dir + "/" + proto::kPortalsSocket,
                                "--parent",
                                std::to_string(parent)};
  if (setup.memory_bytes > 0) argv.insert(argv.end(), {"--memory-bytes", std::to_string(setup.memory_bytes)});
  if (setup.quiet) argv.emplace_back("--quiet");
  return argv;
}

ServiceRights RightsOf(const PortalSetup& setup, uid_t user) {
  if (setup.keys_dir.empty()) return {.user = user};
  return {.user = user, .files = {{setup.keys_dir + "/revoked"}}};
}

ServiceRights RightsOf(const GuestSetup& setup, uid_t user) {
  using How = platform::OfferedFile::How;
  return {.user = user, .files = {{setup.path, setup.way == GuestSetup::Way::kMemory ? How::kMake : How::kPort}}};
}

ServiceRights RightsOf(const PeerSetup& setup, uid_t user) {
  if (setup.token.empty()) return {.user = user};
  return {.user = user, .files = {{setup.token}}};
}

std::vector<std::string> ArgvOf(const PeerSetup& setup, const std::string& socket, int parent) {
  std::vector<std::string> argv{setup.program, "--node",         setup.node, "--socket",
                                socket,        "--for-children", "--parent", std::to_string(parent),
                                "--program",   "weir-parts"};
  if (setup.token.empty()) {
    argv.insert(argv.end(), {"--plain", "--vgpu", setup.vgpu});
  } else {
    argv.insert(argv.end(), {"--token", setup.token});
  }
  return argv;
}

std::vector<std::string> ArgvOf(const MemberSetup& setup, const std::string& run_dir, const std::string& control,
                                int parent) {
  std::vector<std::string> argv{setup.program, "--parent", std::to_string(parent)};
  if (setup.modules) argv.insert(argv.end(), {"--modules", run_dir + "/modules.sock"});
  const std::vector<std::string> membership = MembershipOf(setup, run_dir, control);
  argv.insert(argv.end(), membership.begin(), membership.end());
  return argv;
}

std::vector<std::string> ArgvOf(const ModulesSetup& setup, const MemberSetup* member, const std::string& run_dir,
                                const std::string& control, int parent) {
  std::vector<std::string> argv{setup.program,
                                "--opencl",
                                run_dir + "/opencl/" + setup.vgpu + ".sock",
                                "--run-dir",
                                run_dir,
                                "--store",
                                setup.store,
                                "--state",
                                setup.state_file,
                                "--parent",
                                std::to_string(parent)};
  if (!setup.home.empty()) argv.insert(argv.end(), {"--user-of", setup.home});
  for (const std::string& folder : setup.groups) argv.insert(argv.end(), {"--groups", folder});
  argv.insert(argv.end(), setup.options.begin(), setup.options.end());
  if (member == nullptr) return argv;
  const std::vector<std::string> membership = MembershipOf(*member, run_dir, control);
  argv.insert(argv.end(), membership.begin(), membership.end());
  return argv;
}

std::vector<std::string> ArgvOf(const DashboardSetup& setup, const std::string& run_dir, const std::string& control,
                                int parent) {
  std::vector<std::string> argv{setup.program, "--listen", setup.listen,          "--control",
                                control,       "--parent", std::to_string(parent)};
  if (setup.plain) {
    argv.emplace_back("--plain");
  } else {
    argv.insert(argv.end(), {"--token-file", DashboardTokenFile(run_dir)});
  }
  if (setup.read_only) argv.emplace_back("--read-only");
  if (setup.quiet) argv.emplace_back("--quiet");
  return argv;
}

std::string DashboardTokenFile(const std::string& run_dir) { return run_dir + "/dashboard.token"; }

std::string PeerSocket(const std::string& run_dir, std::size_t index) {
  return run_dir + "/peer-" + std::to_string(index) + ".sock";
}

std::string PeerListOf(const std::string& run_dir) { return run_dir + "/peers"; }

std::vector<std::string> PeerSockets(const std::string& run_dir, std::size_t count) {
  std::vector<std::string> sockets;
  for (std::size_t i = 0; i < count; ++i) sockets.push_back(PeerSocket(run_dir, i));
  return sockets;
}

}  // namespace weir::daemon
