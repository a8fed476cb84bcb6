// SPDX-License-Identifier: Apache-2.0
// Units live in types. Pure code can't read a clock: Instant's clock has no now(), so an Instant comes from the
// platform's clock, from the simulator's, or from another Instant.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace weir {

using Duration = std::chrono::nanoseconds;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Monotonic time of one node (CLOCK_MONOTONIC) or of the simulator. There is no now() on purpose.
struct NodeClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<NodeClock>;
  static constexpr bool is_steady = true;
};
using Instant = NodeClock::time_point;

constexpr Instant InstantFromNs(std::int64_t ns) { return Instant{Duration{ns}}; }
constexpr std::int64_t NsOf(Instant t) { return t.time_since_epoch().count(); }
constexpr double SecondsOf(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
constexpr double MillisecondsOf(Duration d) { return static_cast<double>(d.count()) * 1e-6; }
constexpr Duration FromSeconds(double s) { return Duration{static_cast<std::int64_t>(s * 1e9)}; }

/// A fraction of a whole, in parts per million: 0 … 1.
struct Share {
  std::uint32_t ppm = 0;
  static constexpr std::uint32_t kWholePpm = 1'000'000;
  static constexpr Share Whole() { return Share{kWholePpm}; }
  /// `f`: 0 … 1. Rounds to the nearest part.
  static constexpr Share FromFraction(double f) {
    const double rounded = f * kWholePpm + 0.5;  // std::lround is not constexpr
    return Share{static_cast<std::uint32_t>(rounded)};
  }
  [[nodiscard]] constexpr double Fraction() const { return static_cast<double>(ppm) / kWholePpm; }
  /// This share of `d`.
  [[nodiscard]] constexpr Duration Of(Duration d) const {
    return Duration{static_cast<std::int64_t>(static_cast<__int128>(d.count()) * ppm / kWholePpm)};
  }
  friend constexpr auto operator<=>(Share, Share) = default;
};

struct Bytes {
  std::uint64_t count = 0;
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
};
constexpr Bytes MiB(std::uint64_t n) { return Bytes{n << 20}; }

/// Device memory is accounted in slots of 64 MiB (gBalloon, section 3).
inline constexpr Bytes kSlotBytes = MiB(64);

}  // namespace weir
