// SPDX-License-Identifier: Apache-2.0
// weir-portal: gives tenants on other machines and in virtual machines access to their vGPUs' executors. Started by
// `weir serve --listen`, `--guest` and `--guest-memory`.
#include <unistd.h>

#include <csignal>
#include <limits>
#include <string>

#include "net/keys.h"
#include "net/tcp_stream.h"
#include "net/tls.h"
#include "platform/fd.h"
#include "platform/files.h"
#include "platform/service_end.h"
#include "platform/service_options.h"
#include "remote/guest_portal.h"
#include "remote/portal.h"
#include "remote/service_user.h"

namespace {

using namespace weir;

constexpr Duration kKnownWithin = seconds(10);

constexpr const char* kAbout =
    "Usage: weir-portal --listen HOST:PORT --executors DIR (--keys DIR | --plain) [OPTIONS]\n"
    "       weir-portal (--guest PATH | --guest-at PATH | --guest-memory FILE) --vgpu NAME --executors DIR [OPTIONS]\n"
    "\n"
    "'weir serve --listen', '--guest' and '--guest-memory' start it by themselves.\n";

struct Arguments {
  std::string listen, keys, port_file;
  pid_t parent = 0;
  remote::ServiceUser user;
  remote::GuestPortalOptions guest;
  remote::PortalOptions portal;
};

/// Retries, because the portal of an earlier daemon releases the port only when it notices that its daemon has ended.
Result<net::TcpListener> ListenSoon(const net::Endpoint& endpoint) {
  constexpr int kTries = 30;
  for (int attempt = 0;; ++attempt) {
    auto listener = net::TcpListener::Listen(endpoint);
    if (listener || attempt == kTries || listener.error().code != Errc::kAlreadyExists) return listener;
    ::usleep(100'000);
  }
}

/// Listens on TCP, with TLS unless the portal is plain.
Status RunListening(const net::Endpoint& endpoint, const Arguments& arguments) {
  remote::PortalOptions options = arguments.portal;
  if (options.plain) {
    options.identify = [](platform::Fd socket) -> Result<std::unique_ptr<net::Stream>> {
      return net::AdoptTcp(std::move(socket));
    };
  } else {
    WEIR_TRY(const net::TlsIdentity identity,
             net::TlsIdentity::OfNode(arguments.keys, arguments.user.OpenerOf({net::RevokedFile(arguments.keys)})));
    options.identify = [identity](platform::Fd socket) {
      return net::StartTls(std::move(socket), identity, net::Role::kServer, kKnownWithin);
    };
  }
  auto listener = ListenSoon(endpoint);
  if (!listener) return listener.error();
  options.listener = listener->fd();
  options.close_listener = [&listener] { listener = Fail(Errc::kUnavailable, "closed"); };
  options.accept = [&]() -> Result<platform::Fd> {
    auto socket = listener->Accept();
    // Neither error ends the portal: no connection is pending, or descriptors will be free again.
    if (!socket && (socket.error().code == Errc::kTimeout || socket.error().code == Errc::kResourceExhausted))
      return platform::Fd();
    return socket;
  };
  if (!arguments.port_file.empty())
    WEIR_TRY_STATUS(platform::WriteFileAtomically(arguments.port_file, std::to_string(listener->port()) + "\n"));
  WEIR_TRY_STATUS(arguments.user.Confine(/*network=*/false));
  return remote::RunPortal(std::move(options));
}

void Declare(platform::ServiceOptions& options, Arguments& arguments) {
  const auto guest_by = [&guest = arguments.guest](remote::GuestWay way) {
    return [&guest, way](const std::string& path) {
      guest.path = path;
      guest.way = way;
      return Ok();
    };
  };
  options.Add("--listen", "HOST:PORT", arguments.listen,
              "accept tenants' relays there; no host: on all addresses; port 0: any free one");
  options.AddParsed("--guest", "PATH", guest_by(remote::GuestWay::kListen),
                    "listen on this Unix socket, to which a virtual machine's port is connected");
  options.AddParsed("--guest-at", "PATH", guest_by(remote::GuestWay::kConnect),
                    "as --guest, where the hypervisor listens, or PATH is a terminal");
  options.AddParsed("--guest-memory", "FILE", guest_by(remote::GuestWay::kMemory),
                    "as --guest, by memory that the virtual machine maps; the file is created if it is missing");
  options.AddWhole("--memory-bytes", "N", arguments.guest.memory_bytes, 1, std::numeric_limits<std::uint64_t>::max(),
                   "size of a file that --guest-memory creates");
  options.Add("--vgpu", "NAME", arguments.guest.vgpu, "the virtual machine's vGPU");
  options.Add("--executors", "DIR", arguments.portal.executors,
              "folder of the sockets of the vGPUs' executors: RUN_DIR/opencl");
  options.Add("--asks", "PATH", arguments.portal.asks, "socket for the daemon's drain requests: RUN_DIR/portals.sock");
  options.Add("--keys", "DIR", arguments.keys, "this node's keys, made by 'weir keys init'");
  options.AddFlag("--plain", arguments.portal.plain, "no encryption; every client that can connect may use any vGPU");
  options.Add("--port-file", "FILE", arguments.port_file, "file to which the port is written when it listens");
  options.AddParent(arguments.parent, "after this process has ended accept no connection, and end with the last one");
  options.AddFlag("--quiet", arguments.portal.quiet, "don't print connections");
  arguments.user.Declare(options);
}

Status Run(Arguments arguments) {
  const bool by_guest = !arguments.guest.path.empty();
  net::Endpoint endpoint;
  if (!by_guest) {
    WEIR_TRY(endpoint, net::ParseEndpoint(arguments.listen));
  }
  WEIR_TRY(const platform::ServiceEnd end, platform::ServiceEnd::Watch(arguments.parent));
  arguments.portal.stop = end.stop.get();
  arguments.portal.parent = end.parent.get();
  if (!by_guest) return RunListening(endpoint, arguments);
  arguments.guest.open = arguments.user.OpenerOf(remote::OfferedFileOf(arguments.guest));
  // Opening the port may mean making a file, which a confined process cannot.
  if (arguments.user.files >= 0)
    arguments.guest.confine = [user = arguments.user] { return user.Confine(/*network=*/false); };
  return remote::RunGuestPortal(arguments.guest, std::move(arguments.portal));
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-portal", kAbout);
  Declare(options, arguments);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  const bool by_guest = !arguments.guest.path.empty();
  if (arguments.portal.executors.empty() || arguments.listen.empty() != by_guest)
    return options.Reject("--executors is needed, and one of --listen, --guest, --guest-at and --guest-memory");
  if (!by_guest && arguments.portal.plain == !arguments.keys.empty()) return options.Reject("give --keys, or --plain");
  if (by_guest == arguments.guest.vgpu.empty()) return options.Reject("--vgpu goes with a guest");
  if (const char* problem = arguments.user.Problem()) return options.Reject(problem);
  std::signal(SIGPIPE, SIG_IGN);
  return options.ExitStatusOf(Run(std::move(arguments)));
}
