// SPDX-License-Identifier: Apache-2.0
// A connected stream of bytes to another machine: TCP, or TLS 1.3 over it. One thread may send while another receives.
// Only the Await functions and SendAll/ReceiveAll block.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "net/keys.h"

namespace weir::net {

/// Host and port, as users write them: "node:7700", "10.0.0.1:7700", "[::1]:7700", ":7700" (all addresses).
struct Endpoint {
  std::string host;  // empty: all addresses
  std::string port;
};
/// kInvalidArgument: the message describes the expected form.
Result<Endpoint> ParseEndpoint(std::string_view text);

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Sends from the beginning of `parts`, gathered into as few packets as possible. Returns the number of bytes
  /// accepted, which is 0 when the other side is not reading. kUnavailable: the connection has ended.
  virtual Result<std::size_t> TrySend(std::span<const iovec> parts) = 0;
  /// Whether TrySendFile, which avoids a copy, is supported.
  [[nodiscard]] virtual bool sends_files() const { return false; }
  /// Like TrySend, for bytes of a memory file from `offset` on. They must not change until the other side has received
  /// them.
  virtual Result<std::size_t> TrySendFile(int fd, std::uint64_t offset, std::size_t bytes);
  /// Returns the number of bytes received, which is 0 when none are available. kUnavailable: the other side closed the
  /// connection ("closed by the other side"), or it was cut.
  virtual Result<std::size_t> TryReceive(std::span<std::byte> into) = 0;
  /// Waits until TrySend may accept bytes. Returns false after `timeout`.
  virtual bool AwaitSend(Duration timeout) = 0;
  /// Waits until TryReceive may return bytes. Returns false after `timeout`.
  virtual bool AwaitReceive(Duration timeout) = 0;
  /// May be called from any thread. Ends both waits and makes later calls fail.
  virtual void Shutdown() = 0;
  /// For messages: "10.0.0.2:40312".
  [[nodiscard]] virtual const std::string& peer() const = 0;
  /// The name in the other side's certificate: a vGPU's on a portal, the node's on a relay. Empty for plain TCP.
  [[nodiscard]] virtual const std::string& peer_name() const = 0;
  /// The role in a client's certificate.
  [[nodiscard]] virtual TokenRole peer_role() const { return TokenRole::kVgpu; }
  /// For poll(2); the stream keeps it.
  [[nodiscard]] virtual int fd() const { return -1; }
};

/// Transfers all bytes. Fails with kTimeout after `timeout` without progress; the total time is not bounded, unless
/// `in_all` bounds it.
Status SendAll(Stream& stream, std::span<const std::byte> bytes, Duration timeout);
Status ReceiveAll(Stream& stream, std::span<std::byte> into, Duration timeout, Duration in_all = Duration::max());

}  // namespace weir::net
