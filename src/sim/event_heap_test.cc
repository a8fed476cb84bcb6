// SPDX-License-Identifier: Apache-2.0
#include "sim/event_heap.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::sim {
namespace {

RC_GTEST_PROP(EventHeapLaw, EventsComeByTimeAndThenInTheOrderOfScheduling, ()) {
  const auto times = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 20));
  EventHeap heap;
  for (std::uint32_t i = 0; i < times.size(); ++i) heap.Push(InstantFromNs(times[i]), EventKind::kLook, i);
  std::int64_t last_ns = -1;
  std::uint32_t last = 0;
  while (!heap.empty()) {
    const Event event = heap.Pop();
    RC_ASSERT(event.at_ns == times[event.subject]);
    RC_ASSERT(event.at_ns > last_ns || (event.at_ns == last_ns && event.subject > last));
    last_ns = event.at_ns;
    last = event.subject;
  }
}

}  // namespace
}  // namespace weir::sim
