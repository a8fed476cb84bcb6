// SPDX-License-Identifier: Apache-2.0
// Little-endian reader and writer for message codecs. The reader checks bounds and records a short read.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proto {

class WireWriter {
 public:
  template <std::unsigned_integral T>
  void Put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFF));
  }
  /// Seven bits per byte, the lowest first; the top bit marks that more follow. Takes one byte for values below 128, at
  /// most ten.
  void PutVarint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>((value & 0x7F) | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  /// Length (one byte), then the bytes; truncated at `max`, which is at most 255.
  void PutShortString(std::string_view text, std::size_t max) {
    const std::size_t n = std::min(text.size(), max);
    Put(static_cast<std::uint8_t>(n));
    for (std::size_t i = 0; i < n; ++i) bytes_.push_back(static_cast<std::byte>(text[i]));
  }
  [[nodiscard]] std::vector<std::byte> Take() && { return std::move(bytes_); }
  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The next value, or 0 with `short_read()` set if the bytes have ended.
  template <std::unsigned_integral T>
  T Get() {
    if (bytes_.size() < sizeof(T)) return short_read_ = true, bytes_ = {}, T{0};
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value =
          static_cast<T>(value | static_cast<T>(static_cast<T>(std::to_integer<std::uint8_t>(bytes_[i])) << (8 * i)));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  /// Reads a PutVarint value. Bits beyond the 64th, and an eleventh byte, count as a short read.
  std::uint64_t GetVarint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = Get<std::uint8_t>();
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    short_read_ = true;
    bytes_ = {};
    return 0;
  }
  /// A reader of the next `size` bytes, which are skipped here; empty with `short_read()` set if there are fewer.
  WireReader Part(std::uint64_t size) {
    if (bytes_.size() < size) return short_read_ = true, bytes_ = {}, WireReader(std::span<const std::byte>{});
    const WireReader part(bytes_.first(static_cast<std::size_t>(size)));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return part;
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }
  std::string GetShortString() {
    const std::size_t n = Get<std::uint8_t>();
    if (bytes_.size() < n) return short_read_ = true, bytes_ = {}, std::string{};
    std::string text(n, '\0');
    for (std::size_t i = 0; i < n; ++i) text[i] = static_cast<char>(bytes_[i]);
    bytes_ = bytes_.subspan(n);
    return text;
  }
  [[nodiscard]] bool short_read() const { return short_read_; }

 private:
  std::span<const std::byte> bytes_;
  bool short_read_ = false;
};

}  // namespace weir::proto
