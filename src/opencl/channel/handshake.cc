// SPDX-License-Identifier: Apache-2.0
#include "opencl/channel/handshake.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/printable.h"
#include "opencl/channel/limits.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

constexpr std::size_t kProgramBytesMax = 255;
/// An executor that has no clients left may end just after a connection was made. A listener that closes every
/// connection must not be asked without end.
constexpr int kAttemptsMax = 3;

Result<wire::Header> HeaderOf(std::span<const std::byte> packet, std::uint16_t op) {
  wire::Header header;
  if (!wire::ReadHeader(packet, header) || header.size != packet.size() || header.op != op)
    return Fail(Errc::kProtocol, "the data is not a handshake of Weir's OpenCL");
  return header;
}

/// kUnavailable: the executor closed the connection without a reply.
Result<Connection> Greet(platform::Fd connected, const std::string& path, const std::string& program, bool remote) {
  Connection connection;
  connection.socket = std::move(connected);
  const int socket = connection.socket.get();
  const Status sent = platform::SendPacket(
      socket, wire::Encode(wire::Hello{.magic = wire::kHelloMagic,
                                       .version = wire::kVersion,
                                       .program = std::string_view(program).substr(0, kProgramBytesMax),
                                       .remote = remote}));
  // The executor may have refused and closed the connection before the Hello was sent.
  if (!sent && !platform::WaitReadable(socket, 0)) return sent.error();
  if (!platform::WaitReadable(socket, static_cast<int>(kHandshakeWait.count() / 1'000'000)))
    return Fail(Errc::kTimeout, path + ": no executor answered; does the daemon still run?");
  WEIR_TRY(platform::Packet packet, platform::ReceivePacket(socket, wire::kHandshakeBytesMax));
  if (packet.bytes.empty()) return Fail(Errc::kUnavailable, path + ": the executor closed the connection");
  WEIR_TRY([[maybe_unused]] const auto header, HeaderOf(packet.bytes, wire::Welcome::kOp));
  wire::Welcome welcome;
  if (!wire::Decode(packet.bytes, welcome) || welcome.magic != wire::kHelloMagic)
    return Fail(Errc::kProtocol, path + ": the reply is not a Welcome");
  if (!welcome.refusal.empty()) return Fail(Errc::kPermissionDenied, Printable(welcome.refusal));
  const std::size_t fds = welcome.buffers_bytes != 0 ? 3 : 2;
  if (welcome.version == 0 || packet.fds.size() != fds || welcome.ring_bytes != kRingBytes)
    return Fail(Errc::kVersionMismatch, path + ": an executor of another version; restart the daemon and the program");
  connection.version = std::min(welcome.version, wire::kVersion);
  WEIR_TRY(connection.channel, MapChannel(packet.fds[0].get(), Side::kClient));
  WEIR_TRY(connection.arena, platform::MapForeignRegion(packet.fds[1].get(), welcome.arena_bytes));
  if (welcome.staging_bytes >= welcome.arena_bytes && welcome.staging_bytes != 0)
    return Fail(Errc::kProtocol, path + ": the reply leaves no room for buffers");
  connection.staging_bytes = welcome.staging_bytes;
  if (remote) connection.arena_file = std::move(packet.fds[1]);
  if (welcome.buffers_bytes != 0) {
    WEIR_TRY(connection.buffers, platform::MapForeignRegion(packet.fds[2].get(), welcome.buffers_bytes));
    connection.buffers_file = std::move(packet.fds[2]);
  }
  return connection;
}

}  // namespace

// An executor that ends closes the connections that it has accepted but not answered. The daemon keeps the listening
// socket, so another attempt waits for the next executor.
Result<Connection> Connect(const std::string& path, const std::string& program, bool remote) {
  for (int attempt = 1;; ++attempt) {
    WEIR_TRY(platform::Fd connected, platform::ConnectSeqPacket(path));
    auto connection = Greet(std::move(connected), path, program, remote);
    if (connection || connection.error().code != Errc::kUnavailable) return connection;
    if (attempt == kAttemptsMax)
      return Fail(Errc::kIo, path + ": the executor closed the connection without a reply, " +
                                 std::to_string(kAttemptsMax) + " times; the daemon's log says why");
  }
}

bool Clients::Include(uid_t user) const {
  return user == owner || user == 0 || user == ::geteuid() || std::ranges::find(portals, user) != portals.end();
}

Result<Accepted> Welcome(platform::Fd connection, const Clients& clients, ArenaSize size, bool in_host_memory) {
  Accepted accepted;
  accepted.socket = std::move(connection);
  const int socket = accepted.socket.get();
  const auto refuse = [&](Errc code, const std::string& why) -> Error {
    // The refusal is best effort: the connection is closed in any case.
    static_cast<void>(
        platform::SendPacket(socket, wire::Encode(wire::Welcome{.magic = wire::kHelloMagic, .refusal = why})));
    return Fail(code, why);
  };
  WEIR_TRY(accepted.peer, platform::PeerOf(socket));
  if (!clients.Include(accepted.peer.uid))
    return refuse(Errc::kPermissionDenied, "this vGPU belongs to uid " + std::to_string(clients.owner));
  WEIR_TRY(const platform::Packet packet,
           platform::ReceivePacket(socket, wire::kHandshakeBytesMax, platform::Descriptors::kRefused));
  if (packet.bytes.empty()) return Fail(Errc::kUnavailable, "closed before a Hello");
  WEIR_TRY([[maybe_unused]] const auto header, HeaderOf(packet.bytes, wire::Hello::kOp));
  wire::Hello hello;
  if (!wire::Decode(packet.bytes, hello) || hello.magic != wire::kHelloMagic || hello.version == 0)
    return refuse(Errc::kProtocol, "this is not a Hello");
  accepted.program = Printable(hello.program.substr(0, kProgramBytesMax));
  accepted.version = std::min(hello.version, wire::kVersion);
  accepted.remote = hello.remote != 0;

  WEIR_TRY(const platform::SharedRegion rings, platform::MakeSharedRegion("weir-opencl-rings", kRingsBytes));
  WEIR_TRY(accepted.channel, MapChannel(rings.fd.get(), Side::kExecutor));
  platform::SharedRegion buffers;
  if (accepted.remote && in_host_memory) {
    WEIR_TRY(buffers, platform::MakeSharedRegion("weir-opencl-buffers", size.buffers));
  }
  const std::uint64_t buffers_bytes = buffers.mapping.bytes();
  const std::uint64_t arena_bytes = size.buffers + size.staging + (accepted.remote ? kSpareBytes : 0);
  WEIR_TRY(platform::SharedRegion arena, platform::MakeSharedRegion("weir-opencl-arena", arena_bytes));
  const std::array fds{rings.fd.get(), arena.fd.get(), buffers.fd.get()};
  WEIR_TRY_STATUS(platform::SendPacket(socket,
                                       wire::Encode(wire::Welcome{.magic = wire::kHelloMagic,
                                                                  .version = accepted.version,
                                                                  .ring_bytes = kRingBytes,
                                                                  .arena_bytes = arena_bytes,
                                                                  .buffers_bytes = buffers_bytes,
                                                                  .staging_bytes = size.staging}),
                                       std::span(fds).first(buffers_bytes != 0 ? 3 : 2)));
  accepted.arena = std::move(arena.mapping);
  accepted.arena_file = std::move(arena.fd);
  accepted.buffers = std::move(buffers.mapping);
  return accepted;
}

bool StillConnected(int socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace weir::opencl
