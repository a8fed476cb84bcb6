// SPDX-License-Identifier: Apache-2.0
// Deterministic random numbers (SplitMix64): a seed gives the same numbers on every machine and compiler. A failed test
// can be repeated with the seed that it printed.
#pragma once

#include <cstdint>

namespace weir {

class Prng {
 public:
  explicit constexpr Prng(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1).
  constexpr double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  /// Uniform in [low, high].
  constexpr std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

}  // namespace weir
