// SPDX-License-Identifier: Apache-2.0
#include "core/partition/known_nodes.h"

#include <algorithm>

namespace weir::core {
namespace {

/// Asks one question, and plays it to its end. `had`: nodes that were chosen before.
NodeId ChooseOne(NodeChoice& choice, Instant now, std::span<const KnownNode> known, Bytes need,
                 const std::vector<NodeId>& had, const std::function<bool(NodeId)>& take) {
  std::vector<ChoiceStep> steps;
  const std::uint64_t number = choice.Ask(now, need, steps);
  const std::vector<ChoiceStep> asked = steps;
  for (const ChoiceStep& step : asked) {
    if (step.kind != ChoiceStep::Kind::kAsk || std::ranges::find(had, step.node) != had.end()) continue;
    const auto node = std::ranges::find(known, step.node, &KnownNode::id);
    if (node == known.end() || node->room.value_or(need) < need) continue;
    choice.Answer(now, step.node, {.number = number, .room = need, .threads = node->threads}, steps);
  }
  // A node without room does not answer, and then the choice goes on only after the answers' deadline. That deadline
  // passes at once here, since no further answer can come. If all nodes have answered, the choice has already gone on.
  const bool goes_on = std::ranges::any_of(
      steps, [&](const ChoiceStep& step) { return step.number == number && step.kind == ChoiceStep::Kind::kTake; });
  if (!goes_on) {
    now += choice.times().answers;
    choice.Tick(now, steps);
  }
  for (std::size_t i = asked.size(); i < steps.size(); ++i) {
    const ChoiceStep step = steps[i];
    if (step.number != number) continue;
    if (step.kind == ChoiceStep::Kind::kChosen) return step.node;
    if (step.kind == ChoiceStep::Kind::kNone) return NodeId{};
    if (step.kind != ChoiceStep::Kind::kTake) continue;
    if (take(step.node))
      choice.Taken(now, step.node, number, steps);
    else
      choice.Refused(now, step.node, number, steps);
  }
  return NodeId{};
}

}  // namespace

std::vector<NodeId> ChooseKnown(NodeChoice& choice, Instant now, std::span<const KnownNode> known, Bytes need,
                                std::size_t most, const std::function<bool(NodeId)>& take) {
  std::vector<NodeId> chosen;
  need.count = std::max<std::uint64_t>(need.count, 1);
  for (int halvings = 0; halvings <= kNeedHalvings && chosen.size() < most;) {
    if (const NodeId node = ChooseOne(choice, now, known, need, chosen, take)) {
      chosen.push_back(node);
      continue;
    }
    need.count = (need.count + 1) / 2;
    ++halvings;
  }
  return chosen;
}

}  // namespace weir::core
