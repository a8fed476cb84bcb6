// SPDX-License-Identifier: Apache-2.0
// A connected TCP socket that never blocks, as both kinds of stream use it.
#pragma once

#include <atomic>
#include <string>

#include "base/units.h"
#include "platform/fd.h"

namespace weir::net {

/// After how long without an answer a peer has vanished.
inline constexpr Duration kVanishedAfter = seconds(20);

class TcpSocket {
 public:
  /// Sets what a stream's socket needs.
  explicit TcpSocket(platform::Fd connected);
  /// A socket that needs nothing: of this machine. `peer`: for people.
  TcpSocket(platform::Fd connected, std::string peer) : fd_(std::move(connected)), peer_(std::move(peer)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& peer() const { return peer_; }

  /// Until one of the poll(2) `events` is there, or the connection has ended. False: `timeout` is over.
  bool Await(short events, Duration timeout);
  /// From any thread: ends every Await, now and later.
  void Shutdown();

  /// Why nothing can be sent or received any more, or how `error_number` ended it.
  [[nodiscard]] bool is_shut() const { return shut_; }
  [[nodiscard]] Error EndedBy(int error_number) const;

 private:
  [[nodiscard]] bool HasVanished() const;

  platform::Fd fd_;
  std::string peer_;
  std::atomic<bool> shut_{false}, vanished_{false};
};

/// "10.0.0.2:40312", "[::1]:40312".
std::string HostAndPort(std::string_view host, std::string_view port);
/// The same, of the other side.
std::string PeerText(int fd);
/// Both ends have the same address: what is sent does not leave this machine.
bool IsOfThisMachine(int fd);

}  // namespace weir::net
