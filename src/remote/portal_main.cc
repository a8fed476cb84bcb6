// SPDX-License-Identifier: Apache-2.0
// weir-portal: gives tenants on other machines and in virtual machines access to their vGPUs' executors. Started by
// `weir serve --listen`, `--guest` and `--guest-memory`.
#include <getopt.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "net/tcp_stream.h"
#include "net/tls.h"
#include "platform/files.h"
#include "platform/option_error.h"
#include "platform/process.h"
#include "remote/guest_portal.h"
#include "remote/portal.h"

namespace {

using namespace weir;

constexpr Duration kKnownWithin = seconds(10);

constexpr const char* kUsage =
    "Usage: weir-portal --listen HOST:PORT --executors DIR (--keys DIR | --plain) [OPTIONS]\n"
    "       weir-portal (--guest PATH | --guest-at PATH | --guest-memory FILE) --vgpu NAME --executors DIR [OPTIONS]\n"
    "\n"
    "'weir serve --listen', '--guest' and '--guest-memory' start it by themselves.\n"
    "\n"
    "  --listen HOST:PORT  accept tenants' relays there; no host: on all addresses; port 0: any free one\n"
    "  --guest PATH        listen on this Unix socket, to which a virtual machine's port is connected\n"
    "  --guest-at PATH     the same where the hypervisor listens, or a terminal\n"
    "  --guest-memory FILE the same by memory that the virtual machine maps, a file that is created if missing …\n"
    "  --memory-bytes N    … with N bytes\n"
    "  --vgpu NAME         the virtual machine's vGPU\n"
    "  --executors DIR     folder of the sockets of the vGPUs' executors: RUN_DIR/opencl\n"
    "  --asks PATH         socket for the daemon's drain requests: RUN_DIR/portals.sock\n"
    "  --keys DIR          this node's keys, made by 'weir keys init'\n"
    "  --plain             no encryption; every client that can connect may use any vGPU\n"
    "  --port-file FILE    file to which the port is written when it listens\n"
    "  --parent PID        after this process has ended accept no connection, and end with the last one\n"
    "  --quiet             don't print connections\n";

enum Option {
  kListen = 1,
  kGuest,
  kGuestAt,
  kGuestMemory,
  kMemoryBytes,
  kVgpu,
  kExecutors,
  kAsks,
  kKeys,
  kPlain,
  kPortFile,
  kParent,
  kQuiet,
  kHelp
};

constexpr option kOptions[] = {{"listen", required_argument, nullptr, kListen},
                               {"guest", required_argument, nullptr, kGuest},
                               {"guest-at", required_argument, nullptr, kGuestAt},
                               {"guest-memory", required_argument, nullptr, kGuestMemory},
                               {"memory-bytes", required_argument, nullptr, kMemoryBytes},
                               {"vgpu", required_argument, nullptr, kVgpu},
                               {"executors", required_argument, nullptr, kExecutors},
                               {"asks", required_argument, nullptr, kAsks},
                               {"keys", required_argument, nullptr, kKeys},
                               {"plain", no_argument, nullptr, kPlain},
                               {"port-file", required_argument, nullptr, kPortFile},
                               {"parent", required_argument, nullptr, kParent},
                               {"quiet", no_argument, nullptr, kQuiet},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-portal: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-portal: %s; see weir-portal --help\n", what);
  return 2;
}

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
Status RunListening(const net::Endpoint& endpoint, const std::string& keys, const std::string& port_file,
                    remote::PortalOptions options) {
  if (options.plain) {
    options.identify = [](platform::Fd socket) -> Result<std::unique_ptr<net::Stream>> {
      return net::AdoptTcp(std::move(socket));
    };
  } else {
    WEIR_TRY(const net::TlsIdentity identity, net::TlsIdentity::OfNode(keys));
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
  if (!port_file.empty())
    WEIR_TRY_STATUS(platform::WriteFileAtomically(port_file, std::to_string(listener->port()) + "\n"));
  return remote::RunPortal(std::move(options));
}

}  // namespace

int main(int argc, char** argv) {
  std::string listen, keys, port_file;
  pid_t parent_pid = 0;
  remote::GuestPortalOptions guest;
  remote::PortalOptions options;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kListen: listen = optarg; break;
      case kGuest:
      case kGuestAt:
      case kGuestMemory:
        guest.path = optarg;
        guest.way = which == kGuest     ? remote::GuestWay::kListen
                    : which == kGuestAt ? remote::GuestWay::kConnect
                                        : remote::GuestWay::kMemory;
        break;
      case kMemoryBytes: guest.memory_bytes = std::strtoull(optarg, nullptr, 10); break;
      case kVgpu: guest.vgpu = optarg; break;
      case kExecutors: options.executors = optarg; break;
      case kAsks: options.asks = optarg; break;
      case kKeys: keys = optarg; break;
      case kPlain: options.plain = true; break;
      case kPortFile: port_file = optarg; break;
      case kParent: parent_pid = std::atoi(optarg); break;
      case kQuiet: options.quiet = true; break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv).c_str());
    }
  }
  if (options.executors.empty() || listen.empty() == guest.path.empty())
    return Usage("--executors is needed, and one of --listen, --guest, --guest-at and --guest-memory");
  if (guest.path.empty() && options.plain == !keys.empty()) return Usage("give --keys, or --plain");
  if (guest.path.empty() != guest.vgpu.empty()) return Usage("--vgpu goes with a guest");
  const auto endpoint = guest.path.empty() ? net::ParseEndpoint(listen) : net::Endpoint{};
  if (!endpoint) return Failed(endpoint.error());
  platform::Fd parent;
  if (parent_pid != 0) {
    auto opened = platform::OpenPidFd(parent_pid);
    if (!opened) return Failed(opened.error());
    parent = std::move(*opened);
    options.parent = parent.get();
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const platform::Fd stop(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!stop) return Failed(platform::ErrnoError("waiting for signals", errno));
  options.stop = stop.get();
  const Status status = guest.path.empty() ? RunListening(*endpoint, keys, port_file, std::move(options))
                                           : remote::RunGuestPortal(guest, std::move(options));
  return status ? 0 : Failed(status.error());
}
