// SPDX-License-Identifier: Apache-2.0
#include "core/stats/loop_costs.h"

#include <algorithm>
#include <utility>

namespace weir::core {

LoopCosts::Loop& LoopCosts::At(std::uint64_t key) {
  Loop* place = &loops_[0];
  for (Loop& loop : loops_) {
    if (loop.used && loop.key == key) return loop;
    if (!loop.used || loop.last < place->last) place = &loop;
    if (!loop.used) break;  // entries are used in order and stay in use
  }
  *place = Loop{.key = key, .used = true};
  return *place;
}

void LoopCosts::Add(const FrameDone& frame) {
  Loop& loop = At(frame.loop);
  loop.last = std::max(loop.last, frame.end);
  last_ = std::max(last_, frame.end);
  loop.pending += std::max(frame.gpu, Duration{0});
  if (frame.count == 0) return;  // a part of a task: the task's cost is known when it ends
  const Duration cost = std::exchange(loop.pending, Duration{0}) / static_cast<std::int64_t>(frame.count);
  loop.ended = std::min(loop.ended + 1, kMeanOf);
  // The cost of the second frame replaces that of the first one.
  const std::int64_t over = std::max<std::int64_t>(loop.ended - 1, 1);
  loop.cost += (cost - loop.cost) / over;
}

LoopCost LoopCosts::Now() const {
  LoopCost sum;
  for (const Loop& loop : loops_) {
    if (!loop.used || loop.ended <= kKnownAfter || last_ - loop.last >= kEnded) continue;
    sum.each += loop.cost;
    ++sum.loops;
  }
  return sum;
}

}  // namespace weir::core
