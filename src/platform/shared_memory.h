// SPDX-License-Identifier: Apache-2.0
// Sealed memfds. A region is created, sized, sealed against shrinking and growing, and only then passed on. Without the
// seals, any holder of the descriptor could truncate it and crash the other side with SIGBUS.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "platform/fd.h"

namespace weir::platform {

/// A mapping of a whole shared region; the destructor unmaps it.
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
  /// Releases the mapping without unmapping it.
  void Leak() { address_ = nullptr; }

 private:
  void* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

struct SharedRegion {
  Fd fd;
  Mapping mapping;
};

/// Creates a zeroed, sealed region. `name` appears in /proc/PID/maps.
Result<SharedRegion> MakeSharedRegion(const std::string& name, std::uint64_t bytes);

/// Maps a region that another process passed. kProtocol unless it is a memfd of exactly `bytes` that is sealed against
/// shrinking and growing: access to any other mapping could fault.
Result<Mapping> MapForeignRegion(int fd, std::uint64_t bytes);

}  // namespace weir::platform
