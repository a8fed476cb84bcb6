// SPDX-License-Identifier: Apache-2.0
// The asking side of a node choice (Partial migration, Algorithm 1): the whole need goes to every node, those with room
// answer, the one that runs the fewest threads is taken. Pure: messages come in, messages go out. Page:
// docs/partition.md
//
//           Ask                  all answered, or the answers' deadline         Taken
//   (none) ──────────▶ asking ─────────────────────────────────────▶ taking ──────────▶ chosen
//                        │ no offer                                    │ Refused, silent: the next best
//                        └────────────────▶ none ◀─────────────────────┘ no offer left, the whole's deadline
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "core/partition/room.h"

namespace weir::core {

struct ChoiceTimes {
  Duration answers = milliseconds(20);  // to come in
  Duration take = milliseconds(20);     // for a taken node to confirm
  Duration whole = milliseconds(100);   // of a question, at most; below RoomTimes::hold
  Duration shun = seconds(1);           // a node that didn't keep its offer; twice as long each time in succession
  Duration shun_max = seconds(300);
};

/// What is to be done: sent to a node, or told to who asked.
struct ChoiceStep {
  enum class Kind : std::uint8_t { kAsk, kTake, kDrop, kChosen, kNone };
  Kind kind = Kind::kAsk;
  std::uint64_t number = 0;
  NodeId node{};  // of all but kNone
  Bytes need{};   // of kAsk
};

struct ChoiceCounts {
  std::uint64_t asked = 0, chosen = 0, none = 0;  // questions
  std::uint64_t late = 0;                         // answers after the choice, or to no question
  std::uint64_t unasked = 0;                      // answers of a node that was not asked
  std::uint64_t twice = 0;
  std::uint64_t broken = 0;  // offers that were not kept, or held less than was asked for
};

class NodeChoice {
 public:
  static constexpr std::size_t kQuestionsMax = 256;

  explicit NodeChoice(const ChoiceTimes& times = {}) : times_(times) {}

  /// Those that may be asked from now on.
  void SetNodes(std::span<const NodeId> nodes);

  /// Returns the question's number. Every question ends with one kChosen or kNone, at `times.whole` at the latest if
  /// Tick is called when it asks to be.
  std::uint64_t Ask(Instant now, Bytes need, std::vector<ChoiceStep>& steps);
  void Answer(Instant now, NodeId node, const RoomOffer& offer, std::vector<ChoiceStep>& steps);
  void Taken(Instant now, NodeId node, std::uint64_t number, std::vector<ChoiceStep>& steps);
  void Refused(Instant now, NodeId node, std::uint64_t number, std::vector<ChoiceStep>& steps);
  /// What became of a chosen node's part: it ran, and what was held against the node is forgotten; or the node had no
  /// room for it after all.
  void Kept(NodeId node) { trust_.erase(node); }
  void Failed(Instant now, NodeId node) { Shun(now, node); }
  /// Returns when to call it again; Instant::max() while nothing is asked.
  Instant Tick(Instant now, std::vector<ChoiceStep>& steps);

  [[nodiscard]] bool Shunned(Instant now, NodeId node) const;
  [[nodiscard]] const ChoiceTimes& times() const { return times_; }
  [[nodiscard]] const ChoiceCounts& counts() const { return counts_; }
  [[nodiscard]] std::size_t open() const { return questions_.size(); }

 private:
  struct Offer {
    NodeId node;
    std::uint64_t threads = 0;
  };
  struct Question {
    Bytes need;
    Instant answers_until{}, take_until{}, until{};
    std::vector<NodeId> asked{};
    std::vector<NodeId> answered{};
    std::vector<Offer> offers{};  // not yet taken up
    NodeId taking{};
  };
  struct Trust {
    Instant shunned_until{};
    Duration span{};  // the last time it was shunned for; zero: not yet
  };
  using Questions = std::map<std::uint64_t, Question>;

  void Shun(Instant now, NodeId node);
  /// Goes on with one question as far as `now` lets it; true: it has ended and is forgotten.
  bool Advance(Instant now, Questions::iterator at, std::vector<ChoiceStep>& steps);
  bool TakeNext(Instant now, Questions::iterator at, std::vector<ChoiceStep>& steps);  // as Advance
  void End(Questions::iterator at, NodeId chosen, std::vector<ChoiceStep>& steps);
  [[nodiscard]] static Instant NextOf(const Question& question) {
    return question.taking ? std::min(question.take_until, question.until) : question.answers_until;
  }

  const ChoiceTimes times_;
  std::vector<NodeId> nodes_;  // ascending
  std::map<NodeId, Trust> trust_;
  Questions questions_;
  std::uint64_t last_ = 0;
  ChoiceCounts counts_;
};

}  // namespace weir::core
