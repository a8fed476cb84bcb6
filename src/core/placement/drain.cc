// SPDX-License-Identifier: Apache-2.0
#include "core/placement/drain.h"

#include <algorithm>

namespace weir::core {

Drained Drain(std::span<const DrainedKind> kinds) {
  const std::size_t count = kinds.size();
  std::array<double, kDrainedMax> left, slowdown;
  std::array<std::size_t, kDrainedMax> at;  // indices of the kinds that still run
  Drained drained;
  for (std::size_t i = 0; i < count; ++i) {
    at[i] = i;
    left[i] = kinds[i].alone_s;
    slowdown[i] = 1 - kinds[i].added[i];  // a run does not slow itself
    for (std::size_t j = 0; j < count; ++j) slowdown[i] += kinds[j].runs * kinds[i].added[j];
  }
  for (std::size_t there = count; there > 0; --there) {
    std::size_t next = 0;
    double span = left[at[0]] * slowdown[at[0]];
    for (std::size_t k = 1; k < there; ++k) {
      const double other = left[at[k]] * slowdown[at[k]];
      if (other >= span) continue;
      span = other;
      next = k;
    }
    span = std::max(span, 0.0);
    drained.done_s += span;
    const std::size_t gone = at[next];
    drained.lost_s += kinds[gone].runs * (drained.done_s - kinds[gone].alone_s);
    at[next] = at[there - 1];
    for (std::size_t k = 0; k + 1 < there; ++k) {
      const std::size_t i = at[k];
      left[i] -= span / slowdown[i];
      slowdown[i] = std::max(1.0, slowdown[i] - kinds[gone].runs * kinds[i].added[gone]);
    }
  }
  return drained;
}

}  // namespace weir::core
