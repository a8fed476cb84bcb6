// SPDX-License-Identifier: Apache-2.0
// A connected, non-blocking TCP socket. Both the plain and the TLS stream use it.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/units.h"
#include "platform/fd.h"

namespace weir::net {

/// A peer that leaves data or probes unanswered for this long has vanished.
inline constexpr Duration kVanishedAfter = seconds(20);

class TcpSocket {
 public:
  /// Sets the socket options that a stream needs.
  explicit TcpSocket(platform::Fd connected);
  /// A socket of this machine, which needs no options. `peer` is used in messages.
  TcpSocket(platform::Fd connected, std::string peer) : fd_(std::move(connected)), peer_(std::move(peer)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& peer() const { return peer_; }

  /// Waits for one of the poll(2) `events` or the end of the connection. Returns false after `timeout`.
  bool Await(short events, Duration timeout);
  /// May be called from any thread. Ends every Await, now and later.
  void Shutdown();

  /// Whether Shutdown was called. EndedBy says why the connection cannot be used; `error_number` is the errno of the
  /// failed call, or 0.
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
/// Host and port of the other side.
std::string PeerText(int fd);
/// A function that ends the connection of `socket`, wherever the socket is served, and also once it is closed here.
std::function<void()> EndOf(const platform::Fd& socket);
/// Whether both ends have the same address, so that the data does not leave this machine.
bool IsOfThisMachine(int fd);

}  // namespace weir::net
