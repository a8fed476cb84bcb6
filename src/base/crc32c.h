// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720): detects torn and corrupted bytes in files. It does not protect against an attacker.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

namespace crc32c_detail {
constexpr std::array<std::uint32_t, 256> Table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kTable = Table();
}  // namespace crc32c_detail

/// `before`: the checksum of the preceding bytes; 0: there are none.
constexpr std::uint32_t Crc32c(std::string_view bytes, std::uint32_t before = 0) {
  std::uint32_t value = ~before;
  for (const char byte : bytes)
    value = (value >> 8) ^ crc32c_detail::kTable[(value ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~value;
}
static_assert(Crc32c("123456789") == 0xE3069283U);  // the check value of RFC 3720's polynomial
static_assert(Crc32c("56789", Crc32c("1234")) == Crc32c("123456789"));

/// Eight lower-case hexadecimal digits.
inline constexpr std::size_t kCrc32cDigits = 8;
inline std::string Crc32cText(std::uint32_t crc) {
  std::string text(kCrc32cDigits, '0');
  for (std::size_t i = 0; i < kCrc32cDigits; ++i) text[i] = "0123456789abcdef"[(crc >> (28 - 4 * i)) & 0xFU];
  return text;
}

}  // namespace weir
