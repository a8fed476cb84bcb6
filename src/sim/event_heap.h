// SPDX-License-Identifier: Apache-2.0
// The events of a run. A heap with a total order: by time, then by the order in which events were pushed. So a run is
// the same every time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/units.h"

namespace weir::sim {

enum class EventKind : std::uint8_t {
  kLook,         // a node polls its gates
  kHousekeep,    // a node drains the frame records of its agents
  kAccount,      // a device's driver reports what each program has used
  kPresent,      // a loop calls present
  kPaceOver,     // a loop's delay is over
  kPresentOver,  // the driver's present returns
  kShown,        // a vertical blank shows a loop's frame
  kBatchDone,    // of a migration scenario: a task's kernel or the time for which it holds memory has ended
  kDevice,       // a device has an event
  kCopied,       // a vGPU's slots have been copied
  kPassed,       // the buffers that do not fit have been copied for a frame
  kArrive,       // a tenant's program starts
  kDepart,       // a tenant's program ends
  kSell,         // customers ask for vGPUs
  kChange,       // the operator changes a setting
  kFault,        // a fault begins
  kMend,         // a fault ends
  kCheck,        // progress and caps are checked
  // Of migration_simulation.h
  kMessage,   // a message arrives
  kDeadline,  // a node choice checks its deadlines
  kDecided,   // a task's plan has been made
  kFlow,      // the next flow of a link is done
  // Of cluster_simulation.h
  kLaunch,      // an application launches its kernel
  kKernelDone,  // the next kernel of a device is done
  // Of simulation.h
  kStart,  // the delay before a loop's frame is over
};

/// `stamp` cancels events: a subject that no longer expects its event counts its own stamp up, and an event with
/// another stamp than its subject's is ignored.
struct Event {
  std::int64_t at_ns = 0;
  std::uint64_t order = 0;
  std::uint32_t subject = 0;
  std::uint32_t stamp = 0;
  EventKind kind = EventKind::kLook;
};

/// A heap in which one event may be kept apart. A popped top leaves a hole that the next push fills, since handling an
/// event often pushes another one.
class EventHeap {
 public:
  void Push(Instant at, EventKind kind, std::uint32_t subject, std::uint32_t stamp = 0) {
    const std::uint64_t order = ++pushed_;
    if (top_is_gone_) {
      top_is_gone_ = false;
      return SinkFromTop(NsOf(at), order, subject, stamp, kind);
    }
    heap_.emplace_back();
    std::size_t hole = heap_.size() - 1;
    const Key key = KeyOf(NsOf(at), order);
    while (hole > 0 && key < KeyOf(heap_[(hole - 1) / kChildren])) {
      heap_[hole] = heap_[(hole - 1) / kChildren];
      hole = (hole - 1) / kChildren;
    }
    heap_[hole] = {NsOf(at), order, subject, stamp, kind};
  }
  /// Keeps one event, which is often replaced, out of the heap. Its place in the order is as if it were pushed now.
  void SetApart(Instant at, EventKind kind, std::uint32_t subject) { apart_ = {NsOf(at), ++pushed_, subject, 0, kind}; }
  void ClearApart() { apart_ = kNone; }

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const {
    return heap_.size() - (top_is_gone_ ? 1 : 0) + (apart_.order != kNone.order ? 1 : 0);
  }
  [[nodiscard]] const Event& Next() {
    FillTop();
    return NextIsApart() ? apart_ : heap_.front();
  }
  Event Pop() {
    FillTop();
    return Take();
  }
  /// Takes the next event if it is before `at_ns`.
  bool PopBefore(std::int64_t at_ns, Event& event) {
    FillTop();
    const bool apart = NextIsApart();
    const Event& next = apart ? apart_ : heap_.front();
    if (next.at_ns >= at_ns) return false;
    event = next;
    if (apart)
      apart_ = kNone;
    else
      top_is_gone_ = true;
    return true;
  }

 private:
  static constexpr Event kNone{.at_ns = std::numeric_limits<std::int64_t>::max(),
                               .order = std::numeric_limits<std::uint64_t>::max()};
  /// Four children lie in two or three cache lines, and there are half as many levels as with two children. Where the
  /// events do not fit into the cache, the cost of a pop is its cache misses.
  static constexpr std::size_t kChildren = 4;
  /// Compares time and order at once, without a branch: which child is the earliest cannot be predicted.
  static bool Earlier(const Event& a, const Event& b) { return KeyOf(a) < KeyOf(b); }
  /// Unsigned, since no time is below zero: a comparison of two keys is then two instructions.
  using Key = unsigned __int128;
  static Key KeyOf(std::int64_t at_ns, std::uint64_t order) {
    return static_cast<Key>(static_cast<std::uint64_t>(at_ns)) << 64 | order;
  }
  static Key KeyOf(const Event& event) { return KeyOf(event.at_ns, event.order); }
  /// The earliest of the children from `child` to before `end`. Of four: the earlier one of each pair, then the earlier
  /// of these two; the processor compares both pairs at the same time.
  [[nodiscard]] std::size_t EarliestOf(std::size_t child, std::size_t end) const {
    const Event* const events = heap_.data();
    if (end - child == kChildren) {
      const std::size_t first = child + (Earlier(events[child + 1], events[child]) ? 1 : 0);
      const std::size_t second = child + 2 + (Earlier(events[child + 3], events[child + 2]) ? 1 : 0);
      return Earlier(events[second], events[first]) ? second : first;
    }
    std::size_t least = child;
    for (++child; child < end; ++child) least = Earlier(events[child], events[least]) ? child : least;
    return least;
  }
  [[nodiscard]] bool NextIsApart() const { return heap_.empty() || Earlier(apart_, heap_.front()); }
  Event Take() {
    if (!NextIsApart()) {
      top_is_gone_ = true;
      return heap_.front();
    }
    return std::exchange(apart_, kNone);
  }
  /// Fills the hole that a pop has left, with the last event of the heap.
  void FillTop() {
    if (!top_is_gone_) return;
    top_is_gone_ = false;
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) SinkFromTop(last.at_ns, last.order, last.subject, last.stamp, last.kind);
  }
  /// The fields are passed one by one, in registers: an event that is stored field by field and then read as a whole
  /// costs the processor more than the rest of a push.
  [[gnu::always_inline]] void SinkFromTop(std::int64_t at_ns, std::uint64_t order, std::uint32_t subject,
                                          std::uint32_t stamp, EventKind kind) {
    const Key key = KeyOf(at_ns, order);
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = hole * kChildren + 1) {
      const std::size_t least = EarliestOf(child, std::min(child + kChildren, heap_.size()));
      if (KeyOf(heap_[least]) >= key) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = {at_ns, order, subject, stamp, kind};
  }

  std::vector<Event> heap_;
  bool top_is_gone_ = false;  // the first event of the heap was popped, and its place is free
  Event apart_ = kNone;
  std::uint64_t pushed_ = 0;
};

}  // namespace weir::sim
