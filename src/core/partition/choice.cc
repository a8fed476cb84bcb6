// SPDX-License-Identifier: Apache-2.0
#include "core/partition/choice.h"

#include <algorithm>
#include <iterator>

namespace weir::core {

void NodeChoice::SetNodes(std::span<const NodeId> nodes) {
  nodes_.assign(nodes.begin(), nodes.end());
  std::ranges::sort(nodes_);
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
  std::erase_if(trust_, [this](const auto& one) { return !std::ranges::binary_search(nodes_, one.first); });
}

bool NodeChoice::Shunned(Instant now, NodeId node) const {
  const auto found = trust_.find(node);
  return found != trust_.end() && now < found->second.shunned_until;
}

void NodeChoice::Shun(Instant now, NodeId node) {
  ++counts_.broken;
  if (!std::ranges::binary_search(nodes_, node)) return;
  Trust& trust = trust_[node];
  trust.span = trust.span == Duration{} ? times_.shun : std::min(trust.span * 2, times_.shun_max);
  trust.shunned_until = now + trust.span;
}

std::uint64_t NodeChoice::Ask(Instant now, Bytes need, std::vector<ChoiceStep>& steps) {
  ++counts_.asked;
  const std::uint64_t number = ++last_;
  Question question{
      .need = need, .answers_until = now + std::min(times_.answers, times_.whole), .until = now + times_.whole};
  if (questions_.size() < kQuestionsMax)
    std::ranges::copy_if(nodes_, std::back_inserter(question.asked), [&](NodeId node) { return !Shunned(now, node); });
  for (const NodeId node : question.asked) steps.push_back({ChoiceStep::Kind::kAsk, number, node, need});
  const auto at = questions_.emplace(number, std::move(question)).first;
  Advance(now, at, steps);
  return number;
}

void NodeChoice::Answer(Instant now, NodeId node, const RoomOffer& offer, std::vector<ChoiceStep>& steps) {
  const auto at = questions_.find(offer.number);
  // An offer for an ended question needs no answer: it expires on the node that made it.
  if (at == questions_.end() || Advance(now, at, steps) || at->second.taking) {
    ++counts_.late;
    return;
  }
  Question& question = at->second;
  if (std::ranges::find(question.asked, node) == question.asked.end()) {
    ++counts_.unasked;
    return;
  }
  if (std::ranges::find(question.answered, node) != question.answered.end()) {
    ++counts_.twice;
    return;
  }
  question.answered.push_back(node);
  if (offer.room < question.need)
    Shun(now, node);
  else
    question.offers.push_back({node, offer.threads});
  Advance(now, at, steps);
}

void NodeChoice::Taken(Instant now, NodeId node, std::uint64_t number, std::vector<ChoiceStep>& steps) {
  const auto at = questions_.find(number);
  if (at == questions_.end() || Advance(now, at, steps)) return;
  if (!node || at->second.taking != node) return;
  End(at, node, steps);
}

void NodeChoice::Refused(Instant now, NodeId node, std::uint64_t number, std::vector<ChoiceStep>& steps) {
  const auto at = questions_.find(number);
  if (at == questions_.end() || Advance(now, at, steps)) return;
  if (!node || at->second.taking != node) return;
  Shun(now, node);
  at->second.taking = NodeId{};
  TakeNext(now, at, steps);
}

Instant NodeChoice::Tick(Instant now, std::vector<ChoiceStep>& steps) {
  Instant next = Instant::max();
  for (auto at = questions_.begin(); at != questions_.end();) {
    const auto after = std::next(at);
    if (!Advance(now, at, steps)) next = std::min(next, NextOf(at->second));
    at = after;
  }
  return next;
}

bool NodeChoice::Advance(Instant now, Questions::iterator at, std::vector<ChoiceStep>& steps) {
  Question& question = at->second;
  if (!question.taking) {
    if (now < question.answers_until && question.answered.size() < question.asked.size()) return false;
    return TakeNext(now, at, steps);
  }
  if (now < NextOf(question)) return false;
  Shun(now, question.taking);
  // The node may have reserved memory without its confirmation having arrived.
  steps.push_back({ChoiceStep::Kind::kDrop, at->first, question.taking});
  question.taking = NodeId{};
  return TakeNext(now, at, steps);
}

bool NodeChoice::TakeNext(Instant now, Questions::iterator at, std::vector<ChoiceStep>& steps) {
  Question& question = at->second;
  const auto best = std::ranges::min_element(question.offers, [](const Offer& a, const Offer& b) {
    return a.threads != b.threads ? a.threads < b.threads : a.node < b.node;
  });
  if (best == question.offers.end() || now >= question.until) {
    End(at, NodeId{}, steps);
    return true;
  }
  question.taking = best->node;
  question.take_until = now + times_.take;
  question.offers.erase(best);
  steps.push_back({ChoiceStep::Kind::kTake, at->first, question.taking});
  return false;
}

void NodeChoice::End(Questions::iterator at, NodeId chosen, std::vector<ChoiceStep>& steps) {
  for (const Offer& offer : at->second.offers) steps.push_back({ChoiceStep::Kind::kDrop, at->first, offer.node});
  ++(chosen ? counts_.chosen : counts_.none);
  steps.push_back({chosen ? ChoiceStep::Kind::kChosen : ChoiceStep::Kind::kNone, at->first, chosen});
  questions_.erase(at);
}

}  // namespace weir::core
