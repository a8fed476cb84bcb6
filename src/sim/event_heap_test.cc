// SPDX-License-Identifier: Apache-2.0
#include "sim/event_heap.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

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

/// Pushes, pops and the event kept apart, in any order, compared with a list that is searched.
RC_GTEST_PROP(EventHeapLaw, AnyOrderOfCallsGivesTheEarliestEvent, ()) {
  struct Known {
    std::int64_t at_ns;
    std::uint64_t order;
    std::uint32_t subject;
    bool apart;
  };
  EventHeap heap;
  std::vector<Known> known;
  std::uint64_t order = 0;
  const auto forget_apart = [&] { std::erase_if(known, [](const Known& each) { return each.apart; }); };
  for (std::uint32_t step = 0; step < 60; ++step) {
    const int at = *rc::gen::inRange(0, 20);
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
      case 1:
        heap.Push(InstantFromNs(at), EventKind::kLook, step);
        known.push_back({at, order++, step, false});
        break;
      case 2:
        forget_apart();
        heap.SetApart(InstantFromNs(at), EventKind::kDevice, step);
        known.push_back({at, order++, step, true});
        break;
      case 3:
        forget_apart();
        heap.ClearApart();
        break;
      default: {
        const auto first =
            std::ranges::min_element(known, {}, [](const Known& each) { return std::pair(each.at_ns, each.order); });
        const bool there = first != known.end() && first->at_ns < at;
        Event event;
        RC_ASSERT(heap.PopBefore(at, event) == there);
        if (!there) break;
        RC_ASSERT(event.at_ns == first->at_ns);
        RC_ASSERT(event.subject == first->subject);
        RC_ASSERT((event.kind == EventKind::kDevice) == first->apart);
        known.erase(first);
      }
    }
    RC_ASSERT(heap.size() == known.size());
    RC_ASSERT(heap.empty() == known.empty());
  }
}

}  // namespace
}  // namespace weir::sim
