// SPDX-License-Identifier: Apache-2.0
// An executor's statistics in shared memory: how each value is written to its word, and read from it. A 32-bit word of
// a duration counts microseconds, a 64-bit word nanoseconds. A value that is too large for its word is written as the
// largest value of the word.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "proto/executor_statistics.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// The number that 1 in the word stands for.
template <typename Value, typename Word>
inline constexpr std::uint64_t kStatisticUnit =
    std::is_same_v<Value, Duration>&& std::is_same_v<Word, proto::AtomicU32> ? 1000 : 1;

/// Writes all words. `order_done` is written last: a daemon that reads it also reads the values that belong to it.
inline void StoreStatistics(const proto::ExecutorStatistics& from, proto::ProcessRegion& to) {
  proto::ExecutorStatistics::Fields([&](const proto::StatisticInfo&, auto member, auto word_of) {
    auto& word = word_of(to);
    using Word = std::remove_reference_t<decltype(word)>;
    using Number = typename Word::value_type;
    using Value = std::remove_cvref_t<decltype(from.*member)>;
    const std::uint64_t count = proto::NumberOf(from.*member) / kStatisticUnit<Value, Word>;
    word.store(static_cast<Number>(std::min<std::uint64_t>(count, std::numeric_limits<Number>::max())),
               std::memory_order_relaxed);
  });
  to.memory.order_done.store(from.order_done, std::memory_order_release);
}

/// Copies each word once and limits it to a plausible value, because a tenant may control its executor.
inline proto::ExecutorStatistics LoadStatistics(const proto::ProcessRegion& from) {
  // Bounds of plausible values. Totals may be large: only their differences are used.
  static constexpr std::uint64_t kBytesMax = 1ULL << 50, kTimeMax = 1ULL << 61;
  proto::ExecutorStatistics out;
  out.order_done = from.memory.order_done.load(std::memory_order_acquire);
  proto::ExecutorStatistics::Fields([&](const proto::StatisticInfo& info, auto member, auto word_of) {
    const auto& word = word_of(from);
    using Word = std::remove_cvref_t<decltype(word)>;
    using Value = std::remove_cvref_t<decltype(out.*member)>;
    std::uint64_t count = word.load(std::memory_order_relaxed);
    if constexpr (std::is_same_v<Value, Bytes>) count = std::min(count, kBytesMax);
    if constexpr (std::is_same_v<Value, Duration>) count = std::min(count, kTimeMax) * kStatisticUnit<Value, Word>;
    proto::SetNumber(out.*member, std::min(count, info.max));
  });
  if (out.resident.count == 0) out.resident = Bytes{out.resident_slots * kSlotBytes.count};
  return out;
}

}  // namespace weir::gate
