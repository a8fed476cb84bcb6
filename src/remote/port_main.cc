// SPDX-License-Identifier: Apache-2.0
// weir-port: the one process of a virtual machine that has a port open. Relays start it.
#include <fcntl.h>
#include <getopt.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "net/tcp_stream.h"
#include "platform/option_error.h"
#include "platform/unix_socket.h"
#include "remote/guest_port.h"
#include "remote/handshake.h"
#include "remote/port_loop.h"

namespace {

using namespace weir;

constexpr const char* kUsage =
    "Usage: weir-port --device PATH --socket PATH [OPTIONS]\n"
    "\n"
    "'weir run --node DEVICE' starts it by itself. By hand it gives access to users who may not open the port:\n"
    "  weir-port --device /dev/virtio-ports/weir.0 --socket /run/weir/host.sock --anyone &\n"
    "  weir run --node /run/weir/host.sock -- clinfo\n"
    "\n"
    "  --device PATH   the port: a character device of this virtual machine that leads to its host, or memory that "
    "both\n"
    "                  have (a PCI device's resource2)\n"
    "  --socket PATH   listen for relays at PATH\n"
    "  --anyone        every user of this machine may connect, not only this one\n"
    "  --idle SECONDS  end after this time without use\n"
    "  --ready-fd FD   descriptor to which a byte is written when it listens; prints nothing from then on\n";

enum Option { kDevice = 1, kSocket, kAnyone, kIdle, kReady, kHelp };

constexpr option kOptions[] = {{"device", required_argument, nullptr, kDevice},
                               {"socket", required_argument, nullptr, kSocket},
                               {"anyone", no_argument, nullptr, kAnyone},
                               {"idle", required_argument, nullptr, kIdle},
                               {"ready-fd", required_argument, nullptr, kReady},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

/// The process that started this one prints the message.
int Failed(const Error& error, int ready) {
  if (ready < 0 || ::write(ready, error.message.data(), error.message.size()) < 0)
    std::fprintf(stderr, "weir-port: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-port: %s; see weir-port --help\n", what);
  return 2;
}

/// Continues in a child, so that the process that started it need not wait. Closes the standard streams, so that no
/// terminal or pipe stays open.
void BeReady(int ready) {
  if (::fork() > 0) ::_exit(0);
  const platform::Fd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (nowhere) ::dup2(nowhere.get(), standard);
  static_cast<void>(::write(ready, "1", 1) == 1);
  ::close(ready);
}

}  // namespace

int main(int argc, char** argv) {
  std::string device, socket;
  bool anyone = false;
  int idle = 0, ready = -1;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kDevice: device = optarg; break;
      case kSocket: socket = optarg; break;
      case kAnyone: anyone = true; break;
      case kIdle: idle = std::atoi(optarg); break;
      case kReady: ready = std::atoi(optarg); break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv).c_str());
    }
  }
  if (device.empty() || socket.empty()) return Usage("--device and --socket are needed");
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const platform::Fd stop(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!stop) return Failed(platform::ErrnoError("waiting for signals", errno), ready);
  // The port is opened first: only its owner may listen on the socket.
  auto port = remote::OpenPortPath(device);
  if (!port) return Failed(port.error(), ready);
  auto listener = platform::ListenUnixStream(socket, anyone ? 0666 : 0600);
  if (!listener) return Failed(listener.error(), ready);
  if (ready >= 0) BeReady(ready);
  const Status status = remote::RunPort({.side = proto::port::Side::kGuest,
                                         .name = device,
                                         .open = [&]() -> Result<std::unique_ptr<remote::PortLine>> {
                                           return *port ? std::move(*port) : remote::OpenPortPath(device);
                                         },
                                         .listener = listener->get(),
                                         .accept = [&] { return platform::AcceptUnix(listener->get()); },
                                         .stop = stop.get(),
                                         .idle_max = seconds(idle)});
  ::unlink(socket.c_str());
  for (auto late = platform::AcceptUnix(listener->get()); late && *late; late = platform::AcceptUnix(listener->get()))
    remote::Refuse(*net::AdoptLocal(std::move(*late), "", ""),
                   "no client used " + device + ", and it was being closed; try again");
  return status ? 0 : Failed(status.error(), -1);
}
