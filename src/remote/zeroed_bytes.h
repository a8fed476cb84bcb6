// SPDX-License-Identifier: Apache-2.0
// A large block of zeros. It takes memory only where it is used, while a vector would write all of it at once.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace weir::remote {

class ZeroedBytes {
 public:
  ZeroedBytes() = default;
  explicit ZeroedBytes(std::size_t size) : bytes_(static_cast<std::byte*>(std::calloc(size, 1))), size_(size) {
    if (bytes_ == nullptr && size != 0) throw std::bad_alloc();
  }
  ZeroedBytes(ZeroedBytes&& other) noexcept : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
  ZeroedBytes& operator=(ZeroedBytes&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~ZeroedBytes() = default;

  [[nodiscard]] std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::byte* begin() const { return data(); }
  [[nodiscard]] std::byte* end() const { return data() + size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace weir::remote
