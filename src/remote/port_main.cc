// SPDX-License-Identifier: Apache-2.0
// weir-port: the one process of a virtual machine that has a port open. Relays start it.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "net/tcp_stream.h"
#include "platform/service_end.h"
#include "platform/service_options.h"
#include "platform/unix_socket.h"
#include "remote/guest_port.h"
#include "remote/handshake.h"
#include "remote/port_loop.h"

namespace {

using namespace weir;

constexpr const char* kAbout =
    "Usage: weir-port --device PATH --socket PATH [OPTIONS]\n"
    "\n"
    "'weir run --node DEVICE' starts it by itself. By hand it gives access to users who may not open the port:\n"
    "  weir-port --device /dev/virtio-ports/weir.0 --socket /run/weir/host.sock --anyone &\n"
    "  weir run --node /run/weir/host.sock -- clinfo\n";

struct Arguments {
  std::string device, socket;
  bool anyone = false;
  Duration idle{};
  int ready = -1;
};

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

/// `ready` becomes -1 when the process that started this one no longer waits.
Status Run(const Arguments& arguments, int& ready) {
  const std::string& device = arguments.device;
  WEIR_TRY(const platform::ServiceEnd end, platform::ServiceEnd::Watch());
  // The port is opened first: only its owner may listen on the socket.
  WEIR_TRY(auto port, remote::OpenPortPath(device));
  WEIR_TRY(const platform::Fd listener, platform::ListenUnixStream(arguments.socket, arguments.anyone ? 0666 : 0600));
  if (ready >= 0) BeReady(std::exchange(ready, -1));
  const Status status = remote::RunPort({.side = proto::port::Side::kGuest,
                                         .name = device,
                                         .open = [&]() -> Result<std::unique_ptr<remote::PortLine>> {
                                           if (port) return std::move(port);
                                           return remote::OpenPortPath(device);
                                         },
                                         .listener = listener.get(),
                                         .accept = [&] { return platform::AcceptUnix(listener.get()); },
                                         .stop = end.stop.get(),
                                         .idle_max = arguments.idle});
  ::unlink(arguments.socket.c_str());
  for (auto late = platform::AcceptUnix(listener.get()); late && *late; late = platform::AcceptUnix(listener.get()))
    remote::Refuse(*net::AdoptLocal(std::move(*late), "", ""),
                   "no client used " + device + ", and it was being closed; try again");
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-port", kAbout);
  options.Add(
      "--device", "PATH", arguments.device,
      "the port: a character device of this virtual machine that leads to its host, or memory that both have (a "
      "PCI device's resource2)");
  options.Add("--socket", "PATH", arguments.socket, "listen for relays at PATH");
  options.AddFlag("--anyone", arguments.anyone, "every user of this machine may connect, not only this one");
  options.AddSeconds("--idle", arguments.idle, Duration{0}, seconds(1'000'000'000),
                     "end after this time without use (default: never)");
  options.AddDescriptor("--ready-fd", arguments.ready,
                        "descriptor to which a byte is written when it listens; prints nothing from then on");
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (arguments.device.empty() || arguments.socket.empty()) return options.Reject("--device and --socket are needed");
  std::signal(SIGPIPE, SIG_IGN);
  int ready = arguments.ready;
  const Status status = Run(arguments, ready);
  // The process that started this one prints the message.
  if (!status && ready >= 0 && ::write(ready, status.error().message.data(), status.error().message.size()) >= 0)
    return EntryOf(status.error().code).exit_code;
  return options.ExitStatusOf(status);
}
