// SPDX-License-Identifier: Apache-2.0
#include "remote/guest_portal.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>

#include "net/tcp_stream.h"
#include "platform/unix_socket.h"
#include "remote/guest_port.h"
#include "remote/memory_line.h"
#include "remote/port_loop.h"

namespace weir::remote {
namespace {

/// Retries, because the portal of an earlier daemon releases the socket only when it notices that its daemon has ended.
Result<platform::Fd> ListenForGuest(const std::string& path) {
  constexpr int kTries = 30;
  for (int attempt = 0;; ++attempt) {
    auto listener = platform::ListenUnixStream(path, 0600);
    if (listener || attempt == kTries || listener.error().code != Errc::kBusy) return listener;
    ::usleep(100'000);
  }
}

/// Passes descriptors from the port's thread to the portal's thread within this process.
class Handover {
 public:
  Status Make() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return platform::ErrnoError("making a pipe", errno);
    taking_ = platform::Fd(ends[0]);
    giving_ = platform::Fd(ends[1]);
    return Ok();
  }
  void Give(platform::Fd fd) {
    const int number = fd.get();
    if (::write(giving_.get(), &number, sizeof number) == sizeof number) static_cast<void>(fd.Release());
  }
  /// Empty: no descriptor is waiting.
  platform::Fd Take() {
    int number = -1;
    return ::read(taking_.get(), &number, sizeof number) == sizeof number ? platform::Fd(number) : platform::Fd();
  }
  [[nodiscard]] int readable() const { return taking_.get(); }

 private:
  platform::Fd taking_, giving_;
};

}  // namespace

platform::OfferedFile OfferedFileOf(const GuestPortalOptions& guest) {
  using How = platform::OfferedFile::How;
  return {guest.path, guest.way == GuestWay::kMemory ? How::kMake : How::kPort};
}

Status RunGuestPortal(const GuestPortalOptions& guest, PortalOptions portal) {
  Handover streams;
  WEIR_TRY_STATUS(streams.Make());
  const platform::Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return platform::ErrnoError("making an eventfd", errno);
  PortLoopOptions port{.side = proto::port::Side::kHost,
                       .name = "the guest at " + guest.path,
                       .opened = [&](platform::Fd stream) { streams.Give(std::move(stream)); },
                       .stop = stop.get(),
                       .leave = portal.parent,
                       .quiet = portal.quiet};
  const auto open = guest.open ? guest.open : [file = OfferedFileOf(guest)] { return platform::OpenOffered(file); };
  platform::Fd listener;
  if (guest.way == GuestWay::kConnect) {
    port.open = [&] { return OpenPortOn(open(), guest.path); };
  } else if (guest.way == GuestWay::kMemory) {
    port.open = [&]() -> Result<std::unique_ptr<PortLine>> {
      WEIR_TRY(platform::Fd fd, open());
      return OpenGuestMemory(std::move(fd), guest.path, guest.memory_bytes);
    };
  } else {
    WEIR_TRY(listener, ListenForGuest(guest.path));
    port.knock = listener.get();
    port.open = [&]() -> Result<std::unique_ptr<PortLine>> {
      WEIR_TRY(platform::Fd connected, platform::AcceptUnix(listener.get()));
      if (!connected) return Fail(Errc::kTimeout, "no client has connected to " + guest.path);
      return LineOf(std::move(connected));
    };
    port.close_knock = [&] { listener.Reset(); };
  }
  portal.listener = streams.readable();
  portal.accept = [&]() -> Result<platform::Fd> { return streams.Take(); };
  portal.identify = [&](platform::Fd stream) -> Result<std::unique_ptr<net::Stream>> {
    return net::AdoptLocal(std::move(stream), "the guest at " + guest.path, guest.vgpu);
  };
  if (guest.confine) WEIR_TRY_STATUS(guest.confine());
  std::thread carrying([&port] {
    if (const Status status = RunPort(std::move(port)); !status)
      std::fprintf(stderr, "weir-portal: %s\n", status.error().message.c_str());
  });
  Status status = RunPortal(std::move(portal));
  static_cast<void>(::eventfd_write(stop.get(), 1));
  carrying.join();
  // Closes descriptors that were passed and not taken.
  while (streams.Take()) continue;
  return status;
}

}  // namespace weir::remote
