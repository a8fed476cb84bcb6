// SPDX-License-Identifier: Apache-2.0
#include "core/partition/known_nodes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace weir::core {
namespace {

const Instant kWhenKnown = InstantFromNs(1'000'000'000);

std::vector<NodeId> IdsOfKnown(std::span<const KnownNode> known) {
  std::vector<NodeId> ids;
  for (const KnownNode& node : known) ids.push_back(node.id);
  return ids;
}

std::vector<std::uint64_t> NumbersOf(const std::vector<NodeId>& nodes) {
  std::vector<std::uint64_t> numbers;
  for (const NodeId node : nodes) numbers.push_back(node.value);
  return numbers;
}

std::vector<std::uint64_t> ChosenOf(const std::vector<KnownNode>& known, Bytes need, std::size_t most = 8) {
  NodeChoice choice;
  choice.SetNodes(IdsOfKnown(known));
  return NumbersOf(ChooseKnown(choice, kWhenKnown, known, need, most, [](NodeId) { return true; }));
}

using Numbers = std::vector<std::uint64_t>;

TEST(KnownNodes, TheFewestThreadsAreTakenFirst) {
  const std::vector<KnownNode> known{{NodeId{1}, MiB(100), 500}, {NodeId{2}, MiB(100), 20}, {NodeId{3}, MiB(100), 20}};
  EXPECT_EQ(ChosenOf(known, MiB(100)), (Numbers{2, 3, 1}));
  EXPECT_EQ(ChosenOf(known, MiB(100), 1), Numbers{2});
}

TEST(KnownNodes, RoomForTheWholeComesBeforeFewThreads) {
  const std::vector<KnownNode> known{
      {NodeId{1}, MiB(60), 0}, {NodeId{2}, MiB(100), 999}, {NodeId{3}, MiB(3), 0}, {NodeId{4}, MiB(7), 0}};
  EXPECT_EQ(ChosenOf(known, MiB(100)), (Numbers{2, 1, 4})) << "a sixteenth is 6.25 MiB";
}

TEST(KnownNodes, UnknownRoomCountsAsEnough) {
  EXPECT_EQ(ChosenOf({{NodeId{1}, {}, 0}, {NodeId{2}, MiB(1), 0}}, MiB(100)), Numbers{1});
}

TEST(KnownNodes, ANodeThatDoesNotConfirmIsShunnedTwiceAsLongEachTime) {
  const std::vector<KnownNode> known{{NodeId{1}, MiB(100), 0}, {NodeId{2}, MiB(100), 9}};
  NodeChoice choice({.shun = seconds(10)});
  choice.SetNodes(IdsOfKnown(known));
  const auto only_second = [](NodeId node) { return node == NodeId{2}; };
  EXPECT_EQ(NumbersOf(ChooseKnown(choice, kWhenKnown, known, MiB(1), 8, only_second)), Numbers{2});
  EXPECT_TRUE(choice.Shunned(kWhenKnown + seconds(9), NodeId{1}));
  EXPECT_FALSE(choice.Shunned(kWhenKnown + seconds(11), NodeId{1}));
  ChooseKnown(choice, kWhenKnown + seconds(11), known, MiB(1), 8, only_second);
  EXPECT_TRUE(choice.Shunned(kWhenKnown + seconds(30), NodeId{1}));
  EXPECT_EQ(choice.open(), 0U);
}

RC_GTEST_PROP(KnownNodes, AreThoseOfASortedList, ()) {
  std::vector<KnownNode> known;
  const auto count = *rc::gen::inRange<std::uint64_t>(0, 12);
  for (std::uint64_t id = 1; id <= count; ++id)
    known.push_back(
        {NodeId{id}, Bytes{*rc::gen::inRange<std::uint64_t>(0, 40)}, *rc::gen::inRange<std::uint64_t>(0, 4)});
  const Bytes need{*rc::gen::inRange<std::uint64_t>(1, 40)};
  const auto most = *rc::gen::inRange<std::size_t>(0, 9);
  const auto refuse = *rc::gen::container<std::set<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(1, 13));
  // Reference: by the least halving of the need that fits, then threads, then id.
  const auto halvings = [&](const KnownNode& node) {
    Bytes part = need;
    for (int i = 0; i <= kNeedHalvings; ++i, part.count = (part.count + 1) / 2)
      if (*node.room >= part) return i;
    return kNeedHalvings + 1;
  };
  std::vector<KnownNode> sorted = known;
  std::erase_if(
      sorted, [&](const KnownNode& node) { return halvings(node) > kNeedHalvings || refuse.contains(node.id.value); });
  std::ranges::sort(sorted, {},
                    [&](const KnownNode& node) { return std::tuple(halvings(node), node.threads, node.id.value); });
  if (sorted.size() > most) sorted.resize(most);
  NodeChoice choice;
  choice.SetNodes(IdsOfKnown(known));
  const auto chosen =
      ChooseKnown(choice, kWhenKnown, known, need, most, [&](NodeId node) { return !refuse.contains(node.value); });
  RC_ASSERT(chosen == IdsOfKnown(sorted));
  RC_ASSERT(choice.open() == 0U);
}

}  // namespace
}  // namespace weir::core
