// SPDX-License-Identifier: Apache-2.0
// What an executor reports about its memory and its partitioned launches. Each statistic is declared once, in Fields():
// its value, its word in shared memory, and its name in the control API. Its metric is in daemon/metric_table.cc. Pure.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace weir::proto {

/// How the values of several executors of one vGPU are combined.
enum class Combined : std::uint8_t { kSum, kLargest };

struct StatisticInfo {
  const char* name = nullptr;  // in the control API; null: not published
  Combined combined = Combined::kSum;
  std::uint64_t max = ~0ULL;  // larger reports are implausible and are read as this
};

/// Totals never fall while the executor lives.
struct ExecutorStatistics {
  std::uint32_t order_done = 0;  // the last memory order that was carried out; not one of Fields()

  std::uint32_t resident_slots = 0;  // contents on the device, in whole slots
  Bytes resident{};                  // the same in bytes; zero from executors before protocol 1.5
  Bytes need{};                      // contents wanted on the device at once; above `resident`: a request for more
  Bytes must{};                      // total need of one command that waits for memory; 0: none waits
  Bytes in_use{};                    // used within the last half second, or waited for
  Bytes made{};                      // all buffers and images, resident or not
  Bytes copied_out{}, copied_in{};   // totals, for any reason
  std::uint64_t evictions = 0;       // total buffers and images
  Duration switch_copy{};            // total: copies because slots were assigned to other vGPUs for a while
  Duration steal{};                  // total over the executor's threads, without the driver's: runnable, not running
  Duration elsewhere{};              // total over the same threads: all other time
  std::uint32_t threads = 0;         // number of these threads
  // Launches in parts: totals of docs/partition.md, "On a node".
  std::uint64_t launches_in_parts = 0;       // completed
  std::uint64_t parts = 0;                   // of these launches
  std::uint64_t launches_not_cut = 0;        // should have run in parts and could not
  Bytes parts_in{}, parts_out{};             // of the parts' slices, to and from the device
  Duration parts_decide{}, parts_compile{};  // before the first part: analysis and choice; compilation

  /// Calls each(info, value, word) for each statistic: `value` is a member pointer, word(region) is its word in a
  /// ProcessRegion.
  template <typename Each>
  static constexpr void Fields(Each&& each) {
    using S = ExecutorStatistics;
    each(
        StatisticInfo{"resident_slots"}, &S::resident_slots, [](auto& r) -> auto& { return r.memory.resident_slots; });
    each(
        StatisticInfo{}, &S::resident, [](auto& r) -> auto& { return r.resident_bytes; });
    each(
        StatisticInfo{"need_bytes"}, &S::need, [](auto& r) -> auto& { return r.memory.need_bytes; });
    each(
        StatisticInfo{.combined = Combined::kLargest}, &S::must, [](auto& r) -> auto& { return r.memory.must_bytes; });
    each(
        StatisticInfo{"in_use_bytes"}, &S::in_use, [](auto& r) -> auto& { return r.memory.in_use_bytes; });
    each(
        StatisticInfo{"made_bytes"}, &S::made, [](auto& r) -> auto& { return r.memory.made_bytes; });
    each(
        StatisticInfo{"copied_out_bytes"}, &S::copied_out, [](auto& r) -> auto& { return r.memory.copied_out; });
    each(
        StatisticInfo{"copied_in_bytes"}, &S::copied_in, [](auto& r) -> auto& { return r.memory.copied_in; });
    each(
        StatisticInfo{"evictions"}, &S::evictions, [](auto& r) -> auto& { return r.memory.evictions; });
    each(
        StatisticInfo{"switch_ns"}, &S::switch_copy, [](auto& r) -> auto& { return r.memory.switch_copy_ns; });
    each(
        StatisticInfo{}, &S::steal, [](auto& r) -> auto& { return r.memory.steal_ns; });
    each(
        StatisticInfo{}, &S::elsewhere, [](auto& r) -> auto& { return r.memory.elsewhere_ns; });
    each(
        StatisticInfo{.max = 1U << 16}, &S::threads, [](auto& r) -> auto& { return r.memory.threads; });
    each(
        StatisticInfo{"launches_in_parts"}, &S::launches_in_parts,
        [](auto& r) -> auto& { return r.memory.launches_in_parts; });
    each(
        StatisticInfo{"parts"}, &S::parts, [](auto& r) -> auto& { return r.memory.parts; });
    each(
        StatisticInfo{"launches_not_cut"}, &S::launches_not_cut,
        [](auto& r) -> auto& { return r.memory.launches_not_cut; });
    each(
        StatisticInfo{"parts_in_bytes"}, &S::parts_in, [](auto& r) -> auto& { return r.memory.parts_in; });
    each(
        StatisticInfo{"parts_out_bytes"}, &S::parts_out, [](auto& r) -> auto& { return r.memory.parts_out; });
    each(
        StatisticInfo{"parts_decide_ns"}, &S::parts_decide, [](auto& r) -> auto& { return r.parts_decide_us; });
    each(
        StatisticInfo{"parts_compile_ns"}, &S::parts_compile, [](auto& r) -> auto& { return r.parts_compile_us; });
  }
};

/// The value as a whole number of its unit: bytes, nanoseconds, or a count.
constexpr std::uint64_t NumberOf(Bytes value) { return value.count; }
constexpr std::uint64_t NumberOf(Duration value) { return static_cast<std::uint64_t>(value.count()); }
constexpr std::uint64_t NumberOf(std::uint64_t value) { return value; }
constexpr std::uint64_t NumberOf(std::uint32_t value) { return value; }

/// Sets `value` from a whole number of its unit. A number that is too large for the type sets the type's maximum.
constexpr void SetNumber(Bytes& value, std::uint64_t number) { value = Bytes{number}; }
constexpr void SetNumber(Duration& value, std::uint64_t number) {
  value = number > static_cast<std::uint64_t>(Duration::max().count()) ? Duration::max()
                                                                       : Duration{static_cast<std::int64_t>(number)};
}
constexpr void SetNumber(std::uint64_t& value, std::uint64_t number) { value = number; }
constexpr void SetNumber(std::uint32_t& value, std::uint64_t number) {
  value = number > 0xFFFF'FFFFU ? 0xFFFF'FFFFU : static_cast<std::uint32_t>(number);
}

/// Adds what another executor of the same vGPU reports. Sums saturate, because a tenant that controls its executor can
/// report any value.
inline void Combine(ExecutorStatistics& all, const ExecutorStatistics& one) {
  ExecutorStatistics::Fields([&](const StatisticInfo& info, auto member, auto) {
    const std::uint64_t a = NumberOf(all.*member), b = NumberOf(one.*member);
    const std::uint64_t sum = a > ~0ULL - b ? ~0ULL : a + b;
    SetNumber(all.*member, info.combined == Combined::kSum ? sum : (a > b ? a : b));
  });
}

}  // namespace weir::proto
