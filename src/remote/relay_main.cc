// SPDX-License-Identifier: Apache-2.0
// weir-relay: acts as the executor of a remote node on the tenant's machine, which may be a virtual machine of that
// node. Started by `weir run --node`.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include "net/tcp_stream.h"
#include "net/tls.h"
#include "platform/service_end.h"
#include "platform/service_options.h"
#include "platform/unix_socket.h"
#include "remote/guest_port.h"
#include "remote/relay.h"
#include "remote/service_user.h"

namespace {

using namespace weir;

constexpr Duration kConnectWithin = seconds(10);

constexpr const char* kAbout =
    "Usage: weir-relay --node HOST:PORT --socket PATH (--token FILE | --plain --vgpu NAME) [OPTIONS]\n"
    "       weir-relay --node DEVICE --socket PATH [OPTIONS]\n"
    "\n"
    "'weir run --node' starts it by itself; by hand it serves every program that uses its socket:\n"
    "  weir-relay --node gpu1:7700 --token game.token --socket /tmp/cl.sock &\n"
    "  OCL_ICD_VENDORS=.../lib/weir/icd WEIR_OPENCL=/tmp/cl.sock clinfo -l\n";

struct Arguments {
  std::string socket;
  bool plain = false;
  int ready = -1;
  remote::ServiceUser user;
  remote::RelayOptions relay;
};

/// A separate process opens the port. Its program, weir-port, lies in the folder of this one.
Result<std::unique_ptr<net::Stream>> ConnectToHost(const std::string& device, const std::string& run_dir) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Fail(Errc::kNotFound, "cannot find weir-port: " + error.message());
  return remote::ConnectByPort(device, run_dir, self.parent_path() / "weir-port");
}

/// Without a token, neither side is authenticated. `open`: how the token is opened.
Result<std::unique_ptr<net::Stream>> ConnectTo(const proto::MoveRequest& node, const net::OpenFile& open) {
  WEIR_TRY(const net::Endpoint endpoint, net::ParseEndpoint(node.node));
  if (node.token.empty()) return net::ConnectTcp(endpoint, kConnectWithin);
  WEIR_TRY(const net::TlsIdentity identity, net::TlsIdentity::OfToken(node.token, open));
  WEIR_TRY(platform::Fd connected, net::ConnectSocket(endpoint, kConnectWithin));
  return net::StartTls(std::move(connected), identity, net::Role::kClient, kConnectWithin);
}

void Declare(platform::ServiceOptions& options, Arguments& arguments) {
  remote::RelayOptions& relay = arguments.relay;
  options.Add("--node", "HOST:PORT", relay.node.node,
              "the node's portal ('weir serve --listen'). In a virtual machine also the path of its port to the host "
              "('weir serve --guest' there) or of memory that both have ('--guest-memory')");
  options.Add("--socket", "PATH", arguments.socket, "listen for OpenCL clients at PATH");
  options.Add("--token", "FILE", relay.node.token,
              "from 'weir keys token' on the node: names the vGPU and identifies the node");
  options.AddFlag("--plain", arguments.plain, "no encryption or tokens, for a portal with the same option");
  options.Add("--vgpu", "NAME", relay.node.vgpu, "with --plain: which vGPU");
  options.Add("--program", "NAME", relay.program, "of the client, for messages");
  options.AddParent(relay.parent, "end when this process has ended and no client is connected");
  options.AddFlag(
      "--for-children", relay.for_children,
      "only children of the --parent process may connect: a daemon's executors, which run as several users");
  options.Add("--when-asked", "WORD", relay.when_asked,
              "a word of the command that moves the program on a drain request; repeat for each word");
  options.AddDescriptor("--ready-fd", arguments.ready,
                        "descriptor to which a byte is written when the node has accepted the relay");
  arguments.user.Declare(options);
}

/// The problem with the combination of options; null: none.
const char* ProblemOf(const Arguments& arguments) {
  const remote::RelayOptions& relay = arguments.relay;
  const bool has_token = !relay.node.token.empty();
  if (relay.node.node.empty() || arguments.socket.empty()) return "--node and --socket are needed";
  const bool by_port = remote::IsPortPath(relay.node.node);
  if (by_port && (arguments.plain || has_token || !relay.node.vgpu.empty()))
    return "the host assigns a virtual machine's vGPU: omit --token, --plain and --vgpu";
  if (!by_port && arguments.plain == has_token) return "give --token, or --plain";
  if (relay.for_children && relay.parent == 0) return "--for-children needs --parent";
  if (!relay.for_children && arguments.user.user != 0) return "--as needs --for-children";
  if (arguments.plain && relay.node.vgpu.empty()) return "--plain needs --vgpu";
  return arguments.user.Problem();
}

Status Run(Arguments arguments) {
  const std::string& socket = arguments.socket;
  const std::string control = socket + proto::kControlSuffix;
  remote::RelayOptions& relay = arguments.relay;
  const auto remove = [socket, control] {
    ::unlink(socket.c_str());
    ::unlink(control.c_str());
  };
  const std::string run_dir = std::filesystem::absolute(socket).parent_path();
  const std::string first_token = relay.node.token;
  const net::OpenFile open_first = arguments.user.OpenerOf({first_token});
  relay.connect = [&](const proto::MoveRequest& to) {
    if (remote::IsPortPath(to.node)) return ConnectToHost(to.node, run_dir);
    return ConnectTo(to, to.token == first_token ? open_first : net::OpenFile());
  };
  WEIR_TRY(relay.listener, platform::ListenSeqPacket(socket, relay.for_children ? 0666 : 0600));
  WEIR_TRY(relay.control, platform::ListenSeqPacket(control, 0600));
  if (relay.for_children) WEIR_TRY_STATUS(arguments.user.Confine(/*network=*/true));
  // The relay's threads block in waits for programs and nodes, so a signal ends the process instead of these threads.
  // `remove` is called first, so that the sockets do not stay behind.
  WEIR_TRY_STATUS(platform::ExitAtServiceEnd(0, remove));
  relay.when_ready = [ready = arguments.ready] {
    if (ready < 0) return;
    if (::write(ready, "1", 1) != 1) std::fputs("weir: no process waits for the relay\n", stderr);
    ::close(ready);
  };
  const Status status = remote::RunRelay(std::move(relay));
  remove();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-relay", kAbout);
  Declare(options, arguments);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (const char* problem = ProblemOf(arguments)) return options.Reject(problem);
  std::signal(SIGPIPE, SIG_IGN);
  // The user has started `weir run`, so errors are printed under the name "weir".
  return platform::ExitStatusOf("weir", Run(std::move(arguments)));
}
