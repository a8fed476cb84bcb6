// SPDX-License-Identifier: Apache-2.0
// What happens next. A heap with a total order: by time, then by the order of scheduling, so that a run is the
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
  kBatchDone,    // a task's kernels or a piece of them have ended
  kDevice,       // a device has an event
  kCopied,       // a vGPU's slots have been copied
  kPassed,       // what doesn't fit has been copied for a frame
  kArrive,       // a tenant's program starts
  kDepart,       // and ends
  kSell,         // customers ask what is to be had
  kChange,       // the operator changes something
  kFault,        // something breaks
  kMend,         // and works again
  kCheck,        // the checkers look
  // Of migration_simulation.h
  kMessage,   // a message is there
  kDeadline,  // a node choice looks at its deadlines
  kDecided,   // a plan is made
  kFlow,      // the next flow of a link is done
  // Of cluster_simulation.h
  kLaunch,      // an application is ready for its kernel
  kKernelDone,  // the next kernel of a device is done
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
    const Event event{NsOf(at), ++pushed_, subject, stamp, kind};
    heap_.push_back(event);
    std::size_t hole = heap_.size() - 1;
    while (hole > 0 && Earlier(event, heap_[(hole - 1) / kChildren])) {
      heap_[hole] = heap_[(hole - 1) / kChildren];
      hole = (hole - 1) / kChildren;
    }
    heap_[hole] = event;
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] const Event& Next() const { return heap_.front(); }
  Event Pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return first;
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = hole * kChildren + 1) {
      std::size_t least = child;
      const std::size_t end = std::min(child + kChildren, heap_.size());
      for (++child; child < end; ++child) least = Earlier(heap_[child], heap_[least]) ? child : least;
      if (!Earlier(heap_[least], last)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = last;
    return first;
  }

 private:
  /// Four children lie in two or three cache lines, and there are half as many levels as with two: where the events do
  /// not fit the cache, misses are what a pop costs.
  static constexpr std::size_t kChildren = 4;
  /// One comparison of both, which compiles to no jump: which of four children is the earliest cannot be predicted.
  static bool Earlier(const Event& a, const Event& b) { return KeyOf(a) < KeyOf(b); }
  static __int128 KeyOf(const Event& event) {
    return static_cast<__int128>(event.at_ns) * (static_cast<__int128>(1) << 64) + event.order;
  }
  std::vector<Event> heap_;
  std::uint64_t pushed_ = 0;
};

}  // namespace weir::sim
