// SPDX-License-Identifier: Apache-2.0
// The last decisions on the node as text, for the control API. Bounded; a reader learns how many events were dropped.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/decision_text.h"

namespace weir::daemon {

struct NodeEvent {
  std::uint64_t number = 0;  // the first one is 1
  Instant at;
  std::int64_t utc_ns = 0;  // nanoseconds since 1970
  engine::Note note;
};

class EventLog {
 public:
  static constexpr std::size_t kEventsMax = 10'000;

  void Add(Instant at, std::int64_t utc_ns, engine::Note note) {
    ++counts_[note.kind];
    if (events_.size() == kEventsMax) events_.pop_front();
    events_.push_back({.number = ++last_, .at = at, .utc_ns = utc_ns, .note = std::move(note)});
  }

  /// The number of events of each kind, dropped ones included.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

  struct Slice {
    std::uint64_t next = 0;  // pass this as `after` in the next call
    std::uint64_t lost = 0;  // dropped events with numbers above `after`
    std::vector<NodeEvent> events;
  };
  /// Events numbered above `after`, oldest first.
  [[nodiscard]] Slice After(std::uint64_t after, std::uint64_t limit) const {
    Slice slice;
    const std::uint64_t oldest = last_ - events_.size();
    std::uint64_t from = after > last_ ? last_ : after;
    if (from < oldest) {
      slice.lost = oldest - from;
      from = oldest;
    }
    for (; from < last_ && slice.events.size() < limit; ++from) slice.events.push_back(events_[from - oldest]);
    slice.next = from;
    return slice;
  }

 private:
  std::deque<NodeEvent> events_;
  std::uint64_t last_ = 0;
  std::map<std::string, std::uint64_t> counts_;  // kinds are words of the code, so there are few
};

}  // namespace weir::daemon
