// SPDX-License-Identifier: Apache-2.0
#include "core/partition/choice.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace weir::core {
namespace {

using Step = ChoiceStep;
constexpr Instant kChoiceBegin = InstantFromNs(1'000'000'000);

struct ChoiceRig {
  explicit ChoiceRig(std::initializer_list<std::uint64_t> ids) {
    std::vector<NodeId> nodes;
    for (const std::uint64_t id : ids) nodes.push_back(NodeId{id});
    choice.SetNodes(nodes);
  }
  std::uint64_t Ask(Bytes need = MiB(10)) { return choice.Ask(now, need, steps); }
  void Answer(std::uint64_t node, std::uint64_t number, std::uint64_t threads, Bytes room = MiB(10)) {
    choice.Answer(now, NodeId{node}, {number, room, threads}, steps);
  }
  void Pass(Duration span) {
    now += span;
    next = choice.Tick(now, steps);
  }
  [[nodiscard]] std::vector<std::uint64_t> Nodes(Step::Kind kind) const {
    std::vector<std::uint64_t> nodes;
    for (const Step& step : steps)
      if (step.kind == kind) nodes.push_back(step.node.value);
    return nodes;
  }

  NodeChoice choice;
  Instant now = kChoiceBegin, next{};
  std::vector<Step> steps;
};
using Ids = std::vector<std::uint64_t>;

TEST(NodeChoice, TakesTheNodeWithTheFewestThreadsAndDropsTheOthers) {
  ChoiceRig rig{1, 2, 3};
  const auto number = rig.Ask();
  EXPECT_EQ(rig.Nodes(Step::Kind::kAsk), (Ids{1, 2, 3}));
  rig.Answer(1, number, 500);
  rig.Answer(3, number, 100);
  EXPECT_TRUE(rig.Nodes(Step::Kind::kTake).empty());
  rig.Answer(2, number, 300);
  EXPECT_EQ(rig.Nodes(Step::Kind::kTake), Ids{3});  // all have answered, so no wait is needed
  rig.choice.Taken(rig.now, NodeId{3}, number, rig.steps);
  EXPECT_EQ(rig.Nodes(Step::Kind::kChosen), Ids{3});
  EXPECT_EQ(rig.Nodes(Step::Kind::kDrop), (Ids{1, 2}));
  EXPECT_EQ(rig.choice.open(), 0u);
}

TEST(NodeChoice, TiesGoToTheLowerIdInWhateverOrderAnswersCome) {
  for (const auto& [first, second] : {std::pair{1u, 2u}, std::pair{2u, 1u}}) {
    ChoiceRig rig{1, 2};
    const auto number = rig.Ask();
    rig.Answer(first, number, 7);
    rig.Answer(second, number, 7);
    EXPECT_EQ(rig.Nodes(Step::Kind::kTake), Ids{1});
  }
}

TEST(NodeChoice, ASilentNodeCountsAsRefusingAfterItsTime) {
  ChoiceRig rig{1, 2};
  const auto number = rig.Ask();
  rig.Answer(2, number, 7);
  rig.Pass(milliseconds(19));
  EXPECT_TRUE(rig.Nodes(Step::Kind::kTake).empty());
  EXPECT_EQ(rig.next, kChoiceBegin + milliseconds(20));
  rig.Pass(milliseconds(1));
  EXPECT_EQ(rig.Nodes(Step::Kind::kTake), Ids{2});
  rig.Answer(1, number, 1);  // too late, though it has fewer threads
  EXPECT_EQ(rig.choice.counts().late, 1u);
  EXPECT_EQ(rig.Nodes(Step::Kind::kTake), Ids{2});
}

TEST(NodeChoice, WithoutANodeWithRoomTheChoiceIsNone) {
  ChoiceRig silent{1};
  silent.Ask();
  silent.Pass(milliseconds(20));
  EXPECT_EQ(silent.Nodes(Step::Kind::kNone).size(), 1u);
  EXPECT_FALSE(silent.choice.Shunned(silent.now, NodeId{1}));  // no room is no reason for back-off
  ChoiceRig alone{};
  alone.Ask();
  EXPECT_EQ(alone.Nodes(Step::Kind::kNone).size(), 1u);
}

TEST(NodeChoice, TakesTheNextBestAndShunsANodeThatBrokeItsOffer) {
  ChoiceRig rig{1, 2, 3};
  const auto number = rig.Ask();
  rig.Answer(1, number, 1);
  rig.Answer(2, number, 2);
  rig.Answer(3, number, 3);
  rig.choice.Refused(rig.now, NodeId{1}, number, rig.steps);
  rig.Pass(milliseconds(20));  // 2 does not answer
  EXPECT_EQ(rig.Nodes(Step::Kind::kTake), (Ids{1, 2, 3}));
  EXPECT_EQ(rig.Nodes(Step::Kind::kDrop), Ids{2});  // it may have reserved memory
  rig.choice.Taken(rig.now, NodeId{3}, number, rig.steps);
  EXPECT_EQ(rig.Nodes(Step::Kind::kChosen), Ids{3});
  rig.steps.clear();
  rig.Ask();
  EXPECT_EQ(rig.Nodes(Step::Kind::kAsk), Ids{3});
}

TEST(NodeChoice, ShunsForTwiceAsLongEachTimeUntilAPartHasRun) {
  ChoiceRig rig{1};
  for (const int span_s : {1, 2, 4, 8}) {
    const auto number = rig.Ask();
    rig.Answer(1, number, 1);
    rig.choice.Taken(rig.now, NodeId{1}, number, rig.steps);
    rig.choice.Failed(rig.now, NodeId{1});  // it confirmed, but had no room
    EXPECT_TRUE(rig.choice.Shunned(rig.now + seconds(span_s) - nanoseconds(1), NodeId{1}));
    rig.now += seconds(span_s);
    EXPECT_FALSE(rig.choice.Shunned(rig.now, NodeId{1}));
  }
  rig.choice.Succeeded(NodeId{1});
  rig.choice.Failed(rig.now, NodeId{1});
  EXPECT_FALSE(rig.choice.Shunned(rig.now + seconds(1), NodeId{1}));
  for (int i = 0; i < 40; ++i) rig.choice.Failed(rig.now, NodeId{1});
  EXPECT_FALSE(rig.choice.Shunned(rig.now + seconds(300), NodeId{1}));
}

TEST(NodeChoice, InvalidAnswersAreCountedAndIgnored) {
  ChoiceRig rig{1, 2};
  const auto number = rig.Ask(MiB(10));
  rig.Answer(9, number, 0);      // was not asked
  rig.Answer(1, number + 7, 0);  // to an unknown question
  rig.Answer(1, number, 50);
  rig.Answer(1, number, 0);          // a second, better answer
  rig.Answer(2, number, 0, MiB(9));  // less than requested
  EXPECT_EQ(rig.Nodes(Step::Kind::kTake), Ids{1});
  EXPECT_EQ(rig.choice.counts().unasked, 1u);
  EXPECT_EQ(rig.choice.counts().late, 1u);
  EXPECT_EQ(rig.choice.counts().twice, 1u);
  EXPECT_EQ(rig.choice.counts().broken, 1u);
  EXPECT_TRUE(rig.choice.Shunned(rig.now, NodeId{2}));
}

TEST(NodeChoice, EndsWithNoneWhenAllNodesBreakTheirOffers) {
  ChoiceRig rig{1, 2, 3, 4, 5, 6, 7, 8};
  const auto number = rig.Ask();
  for (std::uint64_t node = 1; node <= 8; ++node) rig.Answer(node, number, node);
  for (int i = 0; i < 10 && rig.choice.open() > 0; ++i) rig.Pass(milliseconds(20));
  EXPECT_EQ(rig.Nodes(Step::Kind::kNone).size(), 1u);
  EXPECT_EQ(rig.now, kChoiceBegin + milliseconds(100));  // five of them, then the question's deadline
}

/// Askers and answering nodes over a network that loses, delays, duplicates and forges messages.
struct Wild {
  struct Message {
    Instant at{};
    std::uint64_t from = 0, to = 0;
    Step::Kind kind = Step::Kind::kAsk;
    bool answer = false, yes = false;
    std::uint64_t number = 0;
    Bytes size{};
  };
  static constexpr std::uint64_t kNodes = 4;
  static constexpr std::uint64_t kTotal = 1000;

  Wild() {
    std::vector<NodeId> all;
    for (std::uint64_t id = 1; id <= kNodes; ++id) all.push_back(NodeId{id});
    for (std::uint64_t id = 1; id <= kNodes; ++id) {
      std::vector<NodeId> others = all;
      std::erase(others, NodeId{id});
      choices[id].SetNodes(others);
    }
  }
  void Send(const Message& message) {
    const int luck = *rc::gen::inRange(0, 10);
    for (int copies = luck == 0 ? 0 : luck == 1 ? 2 : 1; copies > 0; --copies) {
      pending.push_back(message);
      pending.back().at = now + milliseconds(*rc::gen::inRange(0, 30));
    }
  }
  void Carry(std::uint64_t asker, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::kChosen || step.kind == Step::Kind::kNone) {
        RC_ASSERT(asked_at.contains({asker, step.number}));
        RC_ASSERT(now - asked_at[std::pair(asker, step.number)] <= milliseconds(100));
        if (step.kind == Step::Kind::kChosen) RC_ASSERT(confirmed.contains({step.node.value, asker, step.number}));
        asked_at.erase({asker, step.number});
      } else {
        Send({.from = asker, .to = step.node.value, .kind = step.kind, .number = step.number, .size = step.need});
      }
    }
  }
  void Deliver(const Message& m) {
    std::vector<Step> steps;
    if (m.answer) {
      if (m.kind == Step::Kind::kAsk)
        choices[m.to].Answer(now, NodeId{m.from}, {m.number, m.size, m.from}, steps);
      else if (m.yes)
        choices[m.to].Taken(now, NodeId{m.from}, m.number, steps);
      else
        choices[m.to].Refused(now, NodeId{m.from}, m.number, steps);
      return Carry(m.to, steps);
    }
    RoomKeeper& keeper = keepers[m.to];
    Message reply{.from = m.to, .to = m.from, .kind = m.kind, .answer = true, .number = m.number, .size = m.size};
    if (m.kind == Step::Kind::kAsk) {
      if (keeper.Ask(now, {NodeId{m.from}, m.number, m.size}, usage)) Send(reply);
    } else if (m.kind == Step::Kind::kTake) {
      reply.yes = keeper.Take(now, NodeId{m.from}, m.number, usage);
      if (reply.yes) confirmed.insert({m.to, m.from, m.number});
      Send(reply);
    } else {
      keeper.Drop(NodeId{m.from}, m.number);
    }
    RC_ASSERT(keeper.promised().count <= kTotal);
  }
  void Ask(std::uint64_t asker) {
    std::vector<Step> steps;
    const Bytes need{*rc::gen::inRange<std::uint64_t>(1, 800)};
    // Ask may end the question immediately, so the number is recorded before.
    asked_at[std::pair(asker, ++numbers[asker])] = now;
    RC_ASSERT(choices[asker].Ask(now, need, steps) == numbers[asker]);
    Carry(asker, steps);
  }
  void Pass() {
    now += milliseconds(1);
    for (std::uint64_t id = 1; id <= kNodes; ++id) {
      std::vector<Step> steps;
      choices[id].Tick(now, steps);
      Carry(id, steps);
    }
    for (std::size_t i = 0; i < pending.size();) {
      if (pending[i].at > now) {
        ++i;
        continue;
      }
      const Message message = pending[i];
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
      Deliver(message);
    }
  }

  Instant now = kChoiceBegin;
  DeviceUsage usage{Bytes{kTotal}};
  std::map<std::uint64_t, NodeChoice> choices;
  std::map<std::uint64_t, RoomKeeper> keepers;
  std::map<std::uint64_t, std::uint64_t> numbers;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Instant> asked_at;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> confirmed;
  std::vector<Message> pending;
};

RC_GTEST_PROP(NodeChoiceLaw, EndsByItsDeadlineWithANodeThatConfirmedOrWithNone, ()) {
  Wild wild;
  for (int i = 0; i < 60; ++i) {
    if (*rc::gen::inRange(0, 4) == 0) wild.Ask(*rc::gen::inRange<std::uint64_t>(1, Wild::kNodes + 1));
    if (*rc::gen::inRange(0, 10) == 0) {  // a forged message
      wild.pending.push_back({.at = wild.now,
                              .from = *rc::gen::inRange<std::uint64_t>(0, 7),
                              .to = *rc::gen::inRange<std::uint64_t>(1, Wild::kNodes + 1),
                              .kind = *rc::gen::element(Step::Kind::kAsk, Step::Kind::kDrop),
                              .answer = true,
                              .yes = false,
                              .number = *rc::gen::inRange<std::uint64_t>(0, 6),
                              .size = Bytes{*rc::gen::inRange<std::uint64_t>(0, 900)}});
    }
    wild.Pass();
  }
  for (int i = 0; i < 101; ++i) wild.Pass();
  RC_ASSERT(wild.asked_at.empty());
  for (auto& [id, choice] : wild.choices) RC_ASSERT(choice.open() == 0u);
  for (auto& [id, keeper] : wild.keepers) {
    keeper.Expire(wild.now + seconds(20));
    RC_ASSERT(keeper.promised() == Bytes{});
  }
}

}  // namespace
}  // namespace weir::core
