// SPDX-License-Identifier: Apache-2.0
// Adds an executor's memory statistics to the totals of its vGPU. Sums saturate, because a tenant that controls its
// executor can report any value.
#pragma once

#include <algorithm>
#include <limits>

#include "engine/events.h"
#include "gate/host.h"

namespace weir::daemon {

template <typename Number>
Number SaturatedSum(Number a, Number b) {
  return a > std::numeric_limits<Number>::max() - b ? std::numeric_limits<Number>::max() : static_cast<Number>(a + b);
}
inline void AddTo(Bytes& sum, Bytes more) { sum.count = SaturatedSum(sum.count, more.count); }
/// Requires that neither value is negative.
inline void AddTo(Duration& sum, Duration more) { sum = Duration{SaturatedSum(sum.count(), more.count())}; }
template <typename Number>
void AddTo(Number& sum, Number more) {
  sum = SaturatedSum(sum, more);
}

/// `done`: the executor has carried out the last memory order.
inline void AddBooks(const gate::MemoryBooks& books, bool done, engine::MemorySample& sample) {
  sample.done = sample.done && done;
  AddTo(sample.resident, books.resident_slots);
  AddTo(sample.need, books.need);
  sample.must = std::max(sample.must, books.must);
  AddTo(sample.in_use, books.in_use);
  AddTo(sample.made, books.made);
  AddTo(sample.copied_out, books.copied_out);
  AddTo(sample.copied_in, books.copied_in);
  AddTo(sample.switch_copy, books.switch_copy);
  AddTo(sample.steal, books.steal);
  AddTo(sample.elsewhere, books.elsewhere);
  AddTo(sample.evictions, books.evictions);
  AddTo(sample.threads, books.threads);
  AddTo(sample.launches_in_parts, books.launches_in_parts);
  AddTo(sample.parts, books.parts);
  AddTo(sample.launches_not_cut, books.launches_not_cut);
  AddTo(sample.parts_in, books.parts_in);
  AddTo(sample.parts_out, books.parts_out);
  AddTo(sample.resident_bytes,
        books.resident.count > 0 ? books.resident : Bytes{books.resident_slots * kSlotBytes.count});
  AddTo(sample.parts_decide, books.parts_decide);
  AddTo(sample.parts_compile, books.parts_compile);
}

}  // namespace weir::daemon
