// SPDX-License-Identifier: Apache-2.0
// The requesting side of a node choice (Partial migration, Algorithm 1). It asks every node for the whole need; nodes
// with room answer, and the one with the fewest running threads is taken. Pure: messages come in, messages go out.
// Page: docs/partition.md
//
//           Ask                  all answered, or the answers' deadline         Taken
//   (none) ──────────▶ asking ─────────────────────────────────────▶ taking ──────────▶ chosen
//                        │ no offer                                    │ Refused or no answer: takes the next best
//                        └────────────────▶ none ◀─────────────────────┘ no offer left, or the question's deadline
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
  Duration answers = milliseconds(20);  // for answers to arrive
  Duration take = milliseconds(20);     // for a taken node to confirm
  Duration whole = milliseconds(100);   // limit of a question; below RoomTimes::hold
  Duration shun = seconds(1);           // back-off of a node that broke its offer; doubles at each consecutive time
  Duration shun_max = seconds(300);
};

/// An action: a message to a node, or a result for the requester.
struct ChoiceStep {
  enum class Kind : std::uint8_t { kAsk, kTake, kDrop, kChosen, kNone };
  Kind kind = Kind::kAsk;
  std::uint64_t number = 0;
  NodeId node{};  // for all kinds except kNone
  Bytes need{};   // for kAsk
};

struct ChoiceCounts {
  std::uint64_t asked = 0, chosen = 0, none = 0;  // questions
  std::uint64_t late = 0;                         // answers after the choice or to an unknown question
  std::uint64_t unasked = 0;                      // answers from a node that was not asked
  std::uint64_t twice = 0;                        // further answers of a node to the same question
  std::uint64_t broken = 0;                       // offers that were not kept, or smaller than the need
};

class NodeChoice {
 public:
  static constexpr std::size_t kQuestionsMax = 256;

  explicit NodeChoice(const ChoiceTimes& times = {}) : times_(times) {}

  /// Replaces the set of nodes that may be asked.
  void SetNodes(std::span<const NodeId> nodes);

  /// Returns the question's number. Every question ends with one kChosen or kNone, within `times.whole` if Tick is
  /// called at the times that it returns.
  std::uint64_t Ask(Instant now, Bytes need, std::vector<ChoiceStep>& steps);
  /// A node has offered room.
  void Answer(Instant now, NodeId node, const RoomOffer& offer, std::vector<ChoiceStep>& steps);
  /// The node has confirmed that it keeps the room.
  void Taken(Instant now, NodeId node, std::uint64_t number, std::vector<ChoiceStep>& steps);
  /// The node no longer has the room that it offered.
  void Refused(Instant now, NodeId node, std::uint64_t number, std::vector<ChoiceStep>& steps);
  /// The result of a chosen node's part. Succeeded: it ran, and the node's back-off is cleared. Failed: the node had no
  /// room for it after all.
  void Succeeded(NodeId node) { trust_.erase(node); }
  void Failed(Instant now, NodeId node) { Shun(now, node); }
  /// Returns the time of the next call; Instant::max() without open questions.
  Instant Tick(Instant now, std::vector<ChoiceStep>& steps);

  /// Whether the node is backed off, and thus is not asked.
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
    std::vector<Offer> offers{};  // not yet taken
    NodeId taking{};
  };
  struct Trust {
    Instant shunned_until{};
    Duration span{};  // the last back-off; zero: none yet
  };
  using Questions = std::map<std::uint64_t, Question>;

  /// Begins or doubles the back-off of the node.
  void Shun(Instant now, NodeId node);
  /// Advances a question as far as `now` allows. Returns true if it has ended and was removed.
  bool Advance(Instant now, Questions::iterator at, std::vector<ChoiceStep>& steps);
  /// Takes the best remaining offer, or ends the question. Returns true if it has ended.
  bool TakeNext(Instant now, Questions::iterator at, std::vector<ChoiceStep>& steps);
  /// Removes the question. Other offers are dropped.
  void End(Questions::iterator at, NodeId chosen, std::vector<ChoiceStep>& steps);
  /// When the question advances even if no message comes.
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
