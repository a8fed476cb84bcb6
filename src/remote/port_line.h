// SPDX-License-Identifier: Apache-2.0
// What leads from a virtual machine to its host and carries a port's bytes: a character device, a socket, or memory
// that both have (memory_line.h).
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

  /// How many bytes came or went; 0: none now; nothing: it has ended. Neither blocks.
  virtual std::optional<std::size_t> Read(std::span<std::byte> into) = 0;
  virtual std::optional<std::size_t> Write(std::span<const std::byte> bytes) = 0;
  /// For poll(2). -1: nothing tells of it when there is something, and Ready() has to be asked.
  [[nodiscard]] virtual int fd() const = 0;
  /// There may be something to read or, where that is asked, room to write.
  [[nodiscard]] virtual bool Ready(bool /*to_write*/) const { return true; }
  /// True once, behind a Read: its bytes, or some of them, do not follow on those before.
  virtual bool BeganAnew() { return false; }
  /// So many bytes may be on their way to this end; 0: any.
  [[nodiscard]] virtual std::uint32_t room() const { return 0; }
};

/// `port`: a character device or a stream socket. Whoever is at the other end of a terminal has room for any.
std::unique_ptr<PortLine> LineOf(platform::Fd port, std::uint32_t room = 0);

/// A random number, never 0.
std::uint64_t DrawEpoch();

}  // namespace weir::remote
