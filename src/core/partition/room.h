// SPDX-License-Identifier: Apache-2.0
// The answering side of a node choice: whether there is room for a task of another node, and for which node it is
// reserved until the task arrives. An offer reserves the room, so that the same bytes are never promised to two nodes.
// Pure. Page: docs/partition.md
//
//           Ask, there is room            Take                     Begin: the part allocates it, and is counted
//   free ──────────────────────▶ held ──────────▶ taken ──────────────────────▶ used
//    ▲                            │ Drop, expired   │ Drop, expired, asker gone
//    └────────────────────────────┴─────────────────┘
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "base/units.h"
#include "core/partition/usage.h"

namespace weir::core {

/// `number` is unique only per asker; both together identify a question.
struct RoomQuestion {
  NodeId asker;
  std::uint64_t number = 0;
  Bytes need;
};

struct RoomOffer {
  std::uint64_t number = 0;
  Bytes room;
  std::uint64_t threads = 0;  // running on the node
};

struct RoomTimes {
  Duration hold = milliseconds(500);  // lifetime of an offer; longer than the asker takes to choose
  Duration begin = seconds(10);       // lifetime of a taken reservation until its part arrives
};

class RoomKeeper {
 public:
  static constexpr std::size_t kHoldsMax = 1024;

  explicit RoomKeeper(const RoomTimes& times = {}) : times_(times) {}

  /// None if there is no room; then no answer is sent. A repeated question gets the same offer.
  std::optional<RoomOffer> Ask(Instant now, const RoomQuestion& question, const DeviceUsage& usage) {
    Expire(now);
    const RoomOffer offer{question.number, question.need, usage.threads()};
    const auto key = std::pair{question.asker, question.number};
    if (const auto found = holds_.find(key); found != holds_.end())
      return found->second.room == question.need && !found->second.taken ? std::optional(offer) : std::nullopt;
    const Bytes free = Free(usage);
    if (question.need.count == 0 || question.need > free || holds_.size() >= kHoldsMax) return std::nullopt;
    holds_.emplace(key, Hold{question.need, now + times_.hold});
    promised_.count += question.need.count;
    return offer;
  }
  /// False if the offer is unknown or expired, or if clients of this node have filled the device meanwhile.
  bool Take(Instant now, NodeId asker, std::uint64_t number, const DeviceUsage& usage) {
    Expire(now);
    const auto found = holds_.find({asker, number});
    if (found == holds_.end()) return false;
    if (found->second.taken) return true;  // repeated message
    if (promised_ > usage.free()) {
      Forget(found);
      return false;
    }
    found->second.taken = true;
    found->second.until = now + times_.begin;
    return true;
  }
  /// The part has arrived: the caller counts its memory as allocated from now on, so the promise ends.
  std::optional<Bytes> Begin(Instant now, NodeId asker, std::uint64_t number) {
    Expire(now);
    const auto found = holds_.find({asker, number});
    if (found == holds_.end() || !found->second.taken) return std::nullopt;
    const Bytes room = found->second.room;
    Forget(found);
    return room;
  }
  /// The asker does not need the room.
  void Drop(NodeId asker, std::uint64_t number) {
    if (const auto found = holds_.find({asker, number}); found != holds_.end()) Forget(found);
  }
  /// The asker has failed: all of its reservations end.
  void Gone(NodeId asker) {
    for (auto hold = holds_.begin(); hold != holds_.end();) {
      const auto next = std::next(hold);
      if (hold->first.first == asker) Forget(hold);
      hold = next;
    }
  }
  /// Ends the reservations whose time is over.
  void Expire(Instant now) {
    for (auto hold = holds_.begin(); hold != holds_.end();) {
      const auto next = std::next(hold);
      if (hold->second.until <= now) Forget(hold);
      hold = next;
    }
  }

  [[nodiscard]] Bytes promised() const { return promised_; }
  /// Room that is left for this node's own tasks and for further askers.
  [[nodiscard]] Bytes Free(const DeviceUsage& usage) const {
    const Bytes free = usage.free();
    return Bytes{promised_ < free ? free.count - promised_.count : 0};
  }

 private:
  struct Hold {
    Bytes room;
    Instant until{};
    bool taken = false;
  };
  using Holds = std::map<std::pair<NodeId, std::uint64_t>, Hold>;
  void Forget(Holds::iterator hold) {
    promised_.count -= hold->second.room.count;
    holds_.erase(hold);
  }

  const RoomTimes times_;
  Holds holds_;
  Bytes promised_{};
};

}  // namespace weir::core
