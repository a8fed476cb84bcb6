// SPDX-License-Identifier: Apache-2.0
// TCP: connecting, listening, and a stream that everybody on the way can read. The same without a way: a stream to
// another process of this machine.
#pragma once

#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"

namespace weir::net {

/// A connected socket, for StartTls or AdoptTcp. Every address of the name is tried in turn. An empty host is this
/// machine. Blocks for `timeout` at most, and for as long as a name takes to look up.
Result<platform::Fd> ConnectSocket(const Endpoint& to, Duration timeout);

Result<std::unique_ptr<Stream>> ConnectTcp(const Endpoint& to, Duration timeout);

/// A stream without TLS: peer_name() is empty.
std::unique_ptr<Stream> AdoptTcp(platform::Fd connected);

/// Over a Unix stream socket that doesn't block. Who is at its other end is known by other means: what peer() and
/// peer_name() are to say.
std::unique_ptr<Stream> AdoptLocal(platform::Fd connected, std::string peer, std::string peer_name);

/// The network that a connected socket's other end speaks from, for limits per network: an IPv4 address, or the first
/// 64 bits of an IPv6 address, of which one user has all the rest. Empty for sockets without addresses.
std::string NetworkOf(int socket);

class TcpListener {
 public:
  /// Port 0: any that is free. An empty host: all addresses, of IPv6 and IPv4.
  static Result<TcpListener> Listen(const Endpoint& on);

  /// Never blocks: kTimeout when nobody has connected. kResourceExhausted: there are no descriptors left.
  [[nodiscard]] Result<platform::Fd> Accept() const;
  /// Readable when somebody has connected.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  TcpListener(platform::Fd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}

  platform::Fd fd_;
  std::uint16_t port_;
};

}  // namespace weir::net
