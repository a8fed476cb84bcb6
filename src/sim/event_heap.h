// SPDX-License-Identifier: Apache-2.0
// What happens next. A binary heap with a total order: by time, then by the order of scheduling, so that a run is the
// same every time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weir::sim {

enum class EventKind : std::uint8_t {
  kLook,         // a node looks at its gates
  kHousekeep,    // a node drains what its agents recorded
  kPresent,      // a loop calls present
  kPaceOver,     // a loop's delay is over
  kPresentOver,  // the driver's present returns
  kBatchDone,    // a device has finished a batch
  kArrive,       // a tenant's program starts
  kDepart,       // and ends
  kChange,       // the operator changes something
  kFault,        // something breaks
  kMend,         // and works again
  kCheck,        // the checkers look
};

/// `stamp` says whether the event is still meant: what it is about counts up when it thinks better of it.
struct Event {
  std::int64_t at_ns = 0;
  std::uint64_t order = 0;
  std::uint32_t subject = 0;
  std::uint32_t stamp = 0;
  EventKind kind = EventKind::kLook;
};

class EventHeap {
 public:
  void Push(Instant at, EventKind kind, std::uint32_t subject, std::uint32_t stamp = 0) {
    heap_.push_back({NsOf(at), ++pushed_, subject, stamp, kind});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] const Event& Next() const { return heap_.front(); }
  Event Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  struct Later {  // a type, so that the compiler sees through it
    bool operator()(const Event& a, const Event& b) const {
      return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
    }
  };
  std::vector<Event> heap_;
  std::uint64_t pushed_ = 0;
};

}  // namespace weir::sim
