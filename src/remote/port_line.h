// SPDX-License-Identifier: Apache-2.0
// The carrier of a port's bytes between a virtual machine and its host: a character device, a socket, or shared memory
// (memory_line.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "platform/fd.h"

namespace weir::remote {

class PortLine {
 public:
  PortLine() = default;
  PortLine(const PortLine&) = delete;
  PortLine& operator=(const PortLine&) = delete;
  virtual ~PortLine() = default;

  /// Return the number of bytes transferred, 0 if none can be now, and nullopt at the end. Never block.
  virtual std::optional<std::size_t> Read(std::span<std::byte> into) = 0;
  virtual std::optional<std::size_t> Write(std::span<const std::byte> bytes) = 0;
  /// For poll(2). -1: there is no descriptor, and Ready() has to be polled.
  [[nodiscard]] virtual int fd() const = 0;
  /// Whether there may be data to read or, with `to_write`, room to write.
  [[nodiscard]] virtual bool Ready(bool /*to_write*/) const { return true; }
  /// Returns true once after a Read if its bytes do not directly follow the earlier ones.
  virtual bool Restarted() { return false; }
  /// The number of bytes that may be in flight to this end; 0: unlimited.
  [[nodiscard]] virtual std::uint32_t room() const { return 0; }
};

/// `port`: a character device or a stream socket. The other end of a terminal has unlimited room.
std::unique_ptr<PortLine> LineOf(platform::Fd port, std::uint32_t room = 0);

/// A random number, never 0.
std::uint64_t DrawEpoch();

}  // namespace weir::remote
