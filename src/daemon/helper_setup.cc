// SPDX-License-Identifier: Apache-2.0
#include "daemon/helper_setup.h"

namespace weir::daemon {

std::vector<std::string> ArgvOf(const PortalSetup& setup, const std::string& run_dir, int parent) {
  std::vector<std::string> argv{setup.program,
                                "--listen",
                                setup.listen,
                                "--executors",
                                run_dir + "/opencl",
                                "--port-file",
                                run_dir + "/portal" + (setup.keys_dir.empty() ? "-plain" : "") + ".port",
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

std::vector<std::string> ArgvOf(const PeerSetup& setup, const std::string& socket, int parent) {
  std::vector<std::string> argv{setup.program, "--node",    setup.node, "--socket",
                                socket,        "--anyone",  "--parent", std::to_string(parent),
                                "--program",   "weir-parts"};
  if (setup.token.empty()) {
    argv.insert(argv.end(), {"--plain", "--vgpu", setup.vgpu});
  } else {
    argv.insert(argv.end(), {"--token", setup.token});
  }
  return argv;
}

std::vector<std::string> ArgvOf(const MemberSetup& setup, const std::string& run_dir, int parent) {
  std::vector<std::string> argv{setup.program,
                                "--managers",
                                setup.managers,
                                "--node-name",
                                setup.name,
                                "--modules",
                                run_dir + "/modules.sock",
                                "--identity",
                                run_dir + "/member.identity",
                                "--parent",
                                std::to_string(parent)};
  if (!setup.token.empty()) argv.insert(argv.end(), {"--token", setup.token});
  if (setup.quiet) argv.emplace_back("--quiet");
  return argv;
}

std::vector<std::string> ArgvOf(const ModulesSetup& setup, const std::string& run_dir, int parent) {
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
  argv.insert(argv.end(), setup.options.begin(), setup.options.end());
  return argv;
}

std::string PeerSocket(const std::string& run_dir, std::size_t index) {
  return run_dir + "/peer-" + std::to_string(index) + ".sock";
}

std::vector<std::string> PeerSockets(const std::string& run_dir, std::size_t count) {
  std::vector<std::string> sockets;
  for (std::size_t i = 0; i < count; ++i) sockets.push_back(PeerSocket(run_dir, i));
  return sockets;
}

}  // namespace weir::daemon
