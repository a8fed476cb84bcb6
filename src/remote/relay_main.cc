// SPDX-License-Identifier: Apache-2.0
// weir-relay: acts as the executor of a remote node on the tenant's machine, which may be a virtual machine of that
// node. Started by `weir run --node`.
#include <getopt.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "net/tcp_stream.h"
#include "net/tls.h"
#include "platform/option_error.h"
#include "platform/unix_socket.h"
#include "remote/guest_port.h"
#include "remote/relay.h"

namespace {

using namespace weir;

constexpr Duration kConnectWithin = seconds(10);

constexpr const char* kUsage =
    "Usage: weir-relay --node HOST:PORT --socket PATH (--token FILE | --plain --vgpu NAME) [OPTIONS]\n"
    "       weir-relay --node DEVICE --socket PATH [OPTIONS]\n"
    "\n"
    "'weir run --node' starts it by itself; by hand it serves every program that uses its socket:\n"
    "  weir-relay --node gpu1:7700 --token game.token --socket /tmp/cl.sock &\n"
    "  OCL_ICD_VENDORS=.../lib/weir/icd WEIR_OPENCL=/tmp/cl.sock clinfo -l\n"
    "\n"
    "  --node HOST:PORT   the node's portal ('weir serve --listen')\n"
    "  --node DEVICE      in a virtual machine, by its port to the host ('weir serve --guest' there) or by memory "
    "that\n"
    "                     both have ('--guest-memory'): a path\n"
    "  --socket PATH      listen for OpenCL clients at PATH\n"
    "  --token FILE       from 'weir keys token' on the node: names the vGPU and identifies the node\n"
    "  --plain            no encryption or tokens, for a portal with the same option\n"
    "  --vgpu NAME        with --plain: which vGPU\n"
    "  --program NAME     of the client, for messages\n"
    "  --parent PID       end when this process has ended and no client is connected\n"
    "  --for-children     only children of the --parent process may connect: a daemon's executors, which "
    "run\n"
    "                     as several users\n"
    "  --when-asked WORD  a word of the command that moves the program on a drain request; repeat for each word\n"
    "  --ready-fd FD      descriptor to which a byte is written when the node has accepted the relay\n";

enum Option { kNode = 1, kSocket, kToken, kPlain, kVgpu, kProgram, kParent, kForChildren, kWhenAsked, kReady, kHelp };

constexpr option kOptions[] = {{"node", required_argument, nullptr, kNode},
                               {"socket", required_argument, nullptr, kSocket},
                               {"token", required_argument, nullptr, kToken},
                               {"plain", no_argument, nullptr, kPlain},
                               {"vgpu", required_argument, nullptr, kVgpu},
                               {"program", required_argument, nullptr, kProgram},
                               {"parent", required_argument, nullptr, kParent},
                               {"for-children", no_argument, nullptr, kForChildren},
                               {"when-asked", required_argument, nullptr, kWhenAsked},
                               {"ready-fd", required_argument, nullptr, kReady},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

int Failed(const Error& error) {
  std::fprintf(stderr, "weir: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-relay: %s; see weir-relay --help\n", what);
  return 2;
}

/// A separate process opens the port; its program lies beside this one.
Result<std::unique_ptr<net::Stream>> ConnectToHost(const std::string& device, const std::string& run_dir) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Fail(Errc::kNotFound, "cannot find weir-port: " + error.message());
  return remote::ConnectByPort(device, run_dir, self.parent_path() / "weir-port");
}

/// Without a token, neither side is authenticated.
Result<std::unique_ptr<net::Stream>> ConnectTo(const proto::MoveRequest& node) {
  WEIR_TRY(const net::Endpoint endpoint, net::ParseEndpoint(node.node));
  if (node.token.empty()) return net::ConnectTcp(endpoint, kConnectWithin);
  WEIR_TRY(const net::TlsIdentity identity, net::TlsIdentity::OfToken(node.token));
  WEIR_TRY(platform::Fd connected, net::ConnectSocket(endpoint, kConnectWithin));
  return net::StartTls(std::move(connected), identity, net::Role::kClient, kConnectWithin);
}

}  // namespace

int main(int argc, char** argv) {
  std::string node, socket, token;
  bool plain = false;
  int ready = -1;
  remote::RelayOptions options;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kNode: node = optarg; break;
      case kSocket: socket = optarg; break;
      case kToken: token = optarg; break;
      case kPlain: plain = true; break;
      case kVgpu: options.node.vgpu = optarg; break;
      case kProgram: options.program = optarg; break;
      case kParent: options.parent = std::atoi(optarg); break;
      case kForChildren: options.for_children = true; break;
      case kWhenAsked: options.when_asked.emplace_back(optarg); break;
      case kReady: ready = std::atoi(optarg); break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv).c_str());
    }
  }
  if (node.empty() || socket.empty()) return Usage("--node and --socket are needed");
  const bool by_port = remote::IsPortPath(node);
  if (by_port && (plain || !token.empty() || !options.node.vgpu.empty()))
    return Usage("the host assigns a virtual machine's vGPU: omit --token, --plain and --vgpu");
  if (!by_port && plain == !token.empty()) return Usage("give --token, or --plain");
  if (options.for_children && options.parent == 0) return Usage("--for-children needs --parent");
  if (plain && options.node.vgpu.empty()) return Usage("--plain needs --vgpu");
  std::signal(SIGPIPE, SIG_IGN);
  options.node.node = node;
  options.node.token = token;
  const std::string run_dir = std::filesystem::absolute(socket).parent_path();
  options.connect = [&run_dir](const proto::MoveRequest& to) {
    return remote::IsPortPath(to.node) ? ConnectToHost(to.node, run_dir) : ConnectTo(to);
  };
  auto listener = platform::ListenSeqPacket(socket, options.for_children ? 0666 : 0600);
  if (!listener) return Failed(listener.error());
  options.listener = std::move(*listener);
  auto control = platform::ListenSeqPacket(socket + proto::kControlSuffix, 0600);
  if (!control) return Failed(control.error());
  options.control = std::move(*control);
  options.when_ready = [ready] {
    if (ready < 0) return;
    if (::write(ready, "1", 1) != 1) std::fputs("weir: no process waits for the relay\n", stderr);
    ::close(ready);
  };
  const Status status = remote::RunRelay(std::move(options));
  ::unlink(socket.c_str());
  ::unlink((socket + proto::kControlSuffix).c_str());
  return status ? 0 : Failed(status.error());
}
