// SPDX-License-Identifier: Apache-2.0
// TCP: connecting, listening, and an unencrypted stream. Also a stream to another process of this machine.
#pragma once

#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"

namespace weir::net {

/// Returns a connected socket for StartTls or AdoptTcp. Tries every address of the name in turn. An empty host means
/// this machine. Blocks for at most `timeout` plus the time of the name lookup.
Result<platform::Fd> ConnectSocket(const Endpoint& to, Duration timeout);

/// Whether a machine answers there and says that no process listens. False: one listens, or it is unknown.
bool RefusesConnections(const Endpoint& to, Duration timeout);

Result<std::unique_ptr<Stream>> ConnectTcp(const Endpoint& to, Duration timeout);

/// A stream without TLS: peer_name() is empty.
std::unique_ptr<Stream> AdoptTcp(platform::Fd connected);

/// A stream over a non-blocking Unix stream socket. The caller knows who is at its other end and gives the values of
/// peer() and peer_name().
std::unique_ptr<Stream> AdoptLocal(platform::Fd connected, std::string peer, std::string peer_name);

/// The network of a connected socket's other end, for limits per network: an IPv4 address, or the first 64 bits of an
/// IPv6 address, because one user usually owns all addresses below them. Empty for sockets without addresses.
std::string NetworkOf(int socket);

class TcpListener {
 public:
  /// Port 0 selects a free port. An empty host listens on all IPv6 and IPv4 addresses.
  static Result<TcpListener> Listen(const Endpoint& on);

  /// Never blocks. kTimeout: no connection is pending. kResourceExhausted: no descriptors are left.
  [[nodiscard]] Result<platform::Fd> Accept() const;
  /// Readable when a connection is pending.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  TcpListener(platform::Fd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}

  platform::Fd fd_;
  std::uint16_t port_;
};

}  // namespace weir::net
