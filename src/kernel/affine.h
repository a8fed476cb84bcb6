// SPDX-License-Identifier: Apache-2.0
// Intervals and affine forms over numbers below 2^61, with detection of every overflow. A form stands for a value of w
// bits modulo 2^w. Sums and products preserve this. An operation that needs the exact value checks its interval first.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace weir::kernel {

/// Both ends are included; empty if low > high. Values beyond kFar mean "no bound".
struct Interval {
  static constexpr std::int64_t kFar = std::int64_t{1} << 61;
  std::int64_t low = -kFar, high = kFar;

  [[nodiscard]] bool empty() const { return low > high; }
  [[nodiscard]] bool single() const { return low == high; }
  [[nodiscard]] bool bounded() const { return low > -kFar && high < kFar; }
  [[nodiscard]] bool Within(std::int64_t least, std::int64_t most) const { return low >= least && high <= most; }
  bool operator==(const Interval&) const = default;
};

/// Saturates at ±kFar, which means "no bound".
std::int64_t FarAdd(std::int64_t a, std::int64_t b);
std::int64_t FarMul(std::int64_t a, std::int64_t b);
Interval operator+(Interval a, Interval b);
Interval operator*(Interval a, std::int64_t factor);
Interval operator*(Interval a, Interval b);
Interval Hull(Interval a, Interval b);
Interval Meet(Interval a, Interval b);
std::int64_t FloorDiv(std::int64_t a, std::int64_t b);  // b > 0
std::int64_t CeilDiv(std::int64_t a, std::int64_t b);

/// constant + sum of factor * symbol. Symbols: 0..2 group ids, 3..5 local ids, then loops, then values with only an
/// interval.
struct Form {
  static constexpr std::size_t kTermsMax = 10;
  struct Term {
    std::uint16_t symbol = 0;
    std::int64_t factor = 0;
  };

  bool known = false;  // false: any value
  std::uint8_t count = 0;
  std::int64_t constant = 0;
  std::array<Term, kTermsMax> terms{};  // ascending by symbol; no factor is 0

  static Form Of(std::int64_t value) { return Form{.known = true, .constant = value}; }
  static Form Symbol(std::uint16_t symbol, std::int64_t factor = 1);
  [[nodiscard]] bool is_constant() const { return known && count == 0; }
  [[nodiscard]] std::int64_t FactorOf(std::uint16_t symbol) const;
  /// The form without that symbol's term.
  [[nodiscard]] Form Without(std::uint16_t symbol) const;
};

/// Unknown if a number overflows or there are too many terms.
Form Sum(const Form& a, const Form& b, std::int64_t factor_of_b = 1);
Form Times(const Form& a, std::int64_t factor);

inline constexpr std::uint16_t kGroupSymbol = 0, kLocalSymbol = 3, kLoopSymbol = 6;

}  // namespace weir::kernel
