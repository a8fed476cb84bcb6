// SPDX-License-Identifier: Apache-2.0
// A connected stream of bytes to another machine: TCP, or TLS 1.3 over it. One thread may send while another receives.
// Nothing here blocks but the waits, which say so.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weir::net {

/// Host and port, as people write them: "node:7700", "10.0.0.1:7700", "[::1]:7700", ":7700" (all addresses).
struct Endpoint {
  std::string host;  // empty: all addresses
  std::string port;
};
/// kInvalidArgument with what was expected.
Result<Endpoint> ParseEndpoint(std::string_view text);

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  /// Sends from the beginning of `parts`, gathered into as few packets as there can be. Returns how many bytes were
  /// taken: 0 when the other side doesn't read at the moment. Errors: kUnavailable when the connection has ended.
  virtual Result<std::size_t> TrySend(std::span<const iovec> parts) = 0;
  /// Whether TrySendFile is to be had, which copies nothing.
  [[nodiscard]] virtual bool sends_files() const { return false; }
  /// Sends from `offset` on in a file of memory, as TrySend. The bytes must not change until the other side has them.
  virtual Result<std::size_t> TrySendFile(int fd, std::uint64_t offset, std::size_t bytes);
  /// Returns how many bytes came: 0 when there are none at the moment. Errors: kUnavailable at its end ("closed by
  /// the other side") and when it was cut.
  virtual Result<std::size_t> TryReceive(std::span<std::byte> into) = 0;
  /// Until TrySend may take something, or `timeout` is over. False: it is.
  virtual bool AwaitSend(Duration timeout) = 0;
  /// Until TryReceive may have something. False: `timeout` is over.
  virtual bool AwaitReceive(Duration timeout) = 0;
  /// From any thread: ends both waits, and makes what follows fail.
  virtual void Shutdown() = 0;
  /// For people: "10.0.0.2:40312".
  [[nodiscard]] virtual const std::string& peer() const = 0;
  /// Who the other side is, as its certificate says: a vGPU's name on a portal, the node's on a relay. Empty: plain
  /// TCP.
  [[nodiscard]] virtual const std::string& peer_name() const = 0;
};

/// All of it, waiting as long as it takes but no longer than `timeout` without progress (kTimeout).
Status SendAll(Stream& stream, std::span<const std::byte> bytes, Duration timeout);
Status ReceiveAll(Stream& stream, std::span<std::byte> into, Duration timeout);

}  // namespace weir::net
