// SPDX-License-Identifier: Apache-2.0
// Sealed memfds. A region is made, sized, sealed against shrinking and growing and only then passed on: without the
// seals whoever holds the descriptor could truncate it and kill the other side with SIGBUS.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "platform/fd.h"

namespace weir::platform {

/// A mapping of a whole shared region; unmapped when it goes.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::uint64_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  explicit operator bool() const { return address_ != nullptr; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  template <typename T>
  [[nodiscard]] T* As() const {
    return static_cast<T*>(address_);
  }
  /// Forgets the mapping without unmapping it.
  void Leak() { address_ = nullptr; }

 private:
  void* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

struct SharedRegion {
  Fd fd;
  Mapping mapping;
};

/// Makes a zeroed, sealed region. `name` shows in /proc/PID/maps.
Result<SharedRegion> MakeSharedRegion(const std::string& name, std::uint64_t bytes);

/// Maps a region that somebody else passed. Refuses (kProtocol) what isn't a memfd of exactly `bytes` that is sealed
/// against shrinking and growing: such a mapping could fault under our feet.
Result<Mapping> MapForeignRegion(int fd, std::uint64_t bytes);

}  // namespace weir::platform
