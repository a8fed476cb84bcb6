// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_engine.h"

#include <gtest/gtest.h>

#include "tests/harness/test_cluster.h"

namespace weir::engine {
namespace {

TEST(ClusterEngine, ReportsOnlyStoredState) {
  TestCluster cluster;
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  EXPECT_EQ(cluster.engine().FindRun("r"), nullptr);
  EXPECT_FALSE(cluster.engine().HasWork("n1"));
  cluster.WriteAll();
  ASSERT_NE(cluster.engine().FindRun("r"), nullptr);
  const NodeWork work = cluster.WorkOf("n1", session);
  ASSERT_EQ(work.start.size(), 1U);
  EXPECT_TRUE(cluster.WorkOf("n1", session).empty()) << "it is told once";
  const RunAttempt attempt = work.start[0].Attempt();
  ASSERT_TRUE(cluster.Do(ResultCame{"n1", session, attempt, ResultSaying("42")}));
  EXPECT_FALSE(cluster.engine().IsTaken("n1", attempt));
  EXPECT_EQ(cluster.engine().FindRun("r")->state, RunState::kRunning);
  cluster.WriteAll();
  EXPECT_TRUE(cluster.engine().IsTaken("n1", attempt));
  EXPECT_EQ(cluster.engine().FindRun("r")->result.text, "42");
  EXPECT_FALSE(cluster.engine().HasWork("n1"));
}

TEST(ClusterEngine, SubmittingAgainChangesNothing) {
  TestCluster cluster;
  const core::RunNeed need{MiB(7), {1, 2, 3, 4}, 10};
  ASSERT_TRUE(cluster.Do(SetModule{{"m", kBlobOfTests, {{"k", "", need}}}}));
  RunRequest request{.module = "m", .kernel = "k", .arguments = "x"};
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", request}));
  cluster.WriteAll();
  ASSERT_TRUE(cluster.Do(SetModule{{"m", std::string(64, 'b')}}));
  cluster.WriteAll();
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", request})) << "the module's name stood for another blob then";
  EXPECT_EQ(cluster.unwritten(), 0U);
  EXPECT_EQ(cluster.engine().FindRun("r")->request.blob, kBlobOfTests);
  EXPECT_EQ(cluster.engine().FindRun("r")->request.need, need) << "of the module, since the client said nothing";
  EXPECT_EQ(cluster.Do(SubmitRun{"r", RequestFor("y")}).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(cluster.Do(SubmitRun{"r", request, "lab"}).error().code, Errc::kAlreadyExists) << "another tenant's ID";
  cluster.Lead();
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", request}));
  EXPECT_EQ(cluster.unwritten(), 0U);
}

TEST(ClusterEngine, RefusesInvalidRequestsWithAReason) {
  TestCluster cluster;
  const auto code = [&](const ClusterEvent& event) { return cluster.Do(event).error().code; };
  EXPECT_EQ(code(SubmitRun{"a b", RequestFor("")}), Errc::kInvalidArgument);
  EXPECT_EQ(code(SubmitRun{std::string(65, 'a'), RequestFor("")}), Errc::kInvalidArgument);
  EXPECT_EQ(code(SubmitRun{"r", RequestFor(std::string(4097, 'x'))}), Errc::kInvalidArgument);
  RunRequest request = RequestFor("");
  request.blob.clear();
  EXPECT_EQ(code(SubmitRun{"r", request}), Errc::kNotFound);
  request.blob = "../../etc";
  EXPECT_EQ(code(SubmitRun{"r", request}), Errc::kInvalidArgument);
  request = RequestFor("");
  request.need.alone_ms = 0;
  EXPECT_EQ(code(SubmitRun{"r", request}), Errc::kInvalidArgument);
  EXPECT_EQ(code(RemoveRun{"r"}), Errc::kNotFound);
  EXPECT_EQ(code(DropModule{"m"}), Errc::kNotFound);
  ClusterNode node = NodeNamed("n", 2);
  node.devices[1].name = "d0";
  EXPECT_EQ(code(NodeHello{node, {}}), Errc::kInvalidArgument);
  EXPECT_EQ(code(TakeWork{"n", 1}), Errc::kNotFound);
  EXPECT_EQ(code(ResultCame{"n", 1, {1, 1}, {}}), Errc::kNotFound);
  EXPECT_EQ(cluster.unwritten(), 0U);
}

TEST(ClusterEngine, BoundsTheTextsOfANode) {
  TestCluster cluster;
  const std::string huge(1 << 20, 'x');
  const auto set = [&](std::vector<ModuleKernel> kernels) {
    return cluster.Do(SetModule{{"m", kBlobOfTests, std::move(kernels)}});
  };
  const core::RunNeed need = RequestFor("").need;
  EXPECT_EQ(set(std::vector(65, ModuleKernel{"k", "", need})).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(set({{huge, "", need}}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(set({{"a b", "", need}}).error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(set({{"k", huge, need}}));
  EXPECT_EQ(cluster.engine().modules().at("m").kernels.at(0).summary, std::string(255, 'x'));

  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  const auto code_of = [&](const std::string& id, const std::string& code) {
    EXPECT_TRUE(cluster.Do(SubmitRun{id, RequestFor(id)}));
    cluster.WriteAll();
    const RunAttempt attempt = cluster.WorkOf("n1", session).start.at(0).Attempt();
    EXPECT_TRUE(cluster.Do(ResultCame{"n1", session, attempt, {.failed = true, .error_code = code}}));
    cluster.WriteAll();
    return cluster.engine().FindRun(id)->result.error_code;
  };
  EXPECT_EQ(code_of("a", "timeout"), "timeout");
  EXPECT_EQ(code_of("b", huge), "internal");
  EXPECT_EQ(code_of("c", ""), "internal");
}

PartsOffer OfferWith(std::uint64_t threads, const std::string& driver = "1.0") {
  return {
      .vgpu = "parts", .address = "gpu:7700", .device = "gpu", .driver = driver, .room = MiB(7), .threads = threads};
}

std::vector<std::string> NodesOffered(TestCluster& cluster, const std::string& asker,
                                      const std::string& driver = "1.0") {
  std::vector<std::string> names;
  for (const NodeOffer& one : cluster.engine().OffersFor(cluster.now(), asker, "gpu", driver))
    names.push_back(one.node);
  return names;
}

TEST(ClusterEngine, OffersAreListedByFewestThreads) {
  TestCluster cluster;
  std::map<std::string, std::uint64_t> sessions;
  for (const char* name : {"n1", "n2", "n3", "n4"}) sessions[name] = cluster.Hello(NodeNamed(name));
  ASSERT_TRUE(cluster.Do(OfferParts{"n1", sessions["n1"], OfferWith(50)}));
  ASSERT_TRUE(cluster.Do(OfferParts{"n2", sessions["n2"], OfferWith(9)}));
  ASSERT_TRUE(cluster.Do(OfferParts{"n3", sessions["n3"], OfferWith(9)}));
  ASSERT_TRUE(cluster.Do(OfferParts{"n4", sessions["n4"], OfferWith(0, "1.1")}));
  using Names = std::vector<std::string>;
  EXPECT_EQ(NodesOffered(cluster, "n9"), (Names{"n2", "n3", "n1"}));
  EXPECT_EQ(NodesOffered(cluster, "n3"), (Names{"n2", "n1"}));
  EXPECT_EQ(NodesOffered(cluster, "n9", "1.1"), Names{"n4"});
  ASSERT_TRUE(cluster.Do(OfferParts{"n2", sessions["n2"], {}}));
  EXPECT_EQ(NodesOffered(cluster, "n9"), (Names{"n3", "n1"}));
  EXPECT_EQ(cluster.unwritten(), 0U) << "offers are not stored";
  EXPECT_EQ(cluster.engine().Nodes(cluster.now())[2].offer, OfferWith(9));
  EXPECT_FALSE(cluster.engine().Nodes(cluster.now())[1].offer);
}

TEST(ClusterEngine, AnUnrenewedOfferExpires) {
  TestCluster cluster;
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(OfferParts{"n1", session, OfferWith(0)}));
  for (int i = 0; i < 3; ++i) {
    cluster.Pass(milliseconds(500));
    ASSERT_TRUE(cluster.Do(NodeHeard{"n1", session}));
    EXPECT_EQ(NodesOffered(cluster, "x").size(), 1U);
  }
  cluster.Pass(milliseconds(500));
  EXPECT_TRUE(NodesOffered(cluster, "x").empty()) << "the node is heard of, and says nothing of parts";
  ASSERT_TRUE(cluster.Do(OfferParts{"n1", session, OfferWith(0)}));
  EXPECT_EQ(NodesOffered(cluster, "x").size(), 1U);
  cluster.Pass(milliseconds(1'600));
  EXPECT_TRUE(NodesOffered(cluster, "x").empty()) << "it is suspect";
}

TEST(ClusterEngine, AnOfferNeedsASessionAndValidText) {
  TestCluster cluster;
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  const auto code = [&](const PartsOffer& offer, std::uint64_t of) {
    return cluster.Do(OfferParts{"n1", of, offer}).error().code;
  };
  EXPECT_EQ(code(OfferWith(0), session + 1), Errc::kNotFound);
  PartsOffer offer = OfferWith(0);
  offer.vgpu = "a b";
  EXPECT_EQ(code(offer, session), Errc::kInvalidArgument);
  offer = OfferWith(0, "\x1b[31m");
  EXPECT_EQ(code(offer, session), Errc::kInvalidArgument);
  offer = OfferWith(0);
  offer.address.assign(kOfferTextBytesMax + 1, 'a');
  EXPECT_EQ(code(offer, session), Errc::kInvalidArgument);
  EXPECT_TRUE(NodesOffered(cluster, "x").empty());
}

TEST(ClusterEngine, BoundsTheNumberOfRuns) {
  TestCluster cluster;
  for (std::size_t i = 0; i < ClusterBounds{}.runs_max; ++i)
    ASSERT_TRUE(cluster.Do(SubmitRun{std::to_string(i), RequestFor("")}));
  EXPECT_EQ(cluster.Do(SubmitRun{"more", RequestFor("")}).error().code, Errc::kResourceExhausted);
  ASSERT_TRUE(cluster.Do(RemoveRun{"7"}));
  EXPECT_TRUE(cluster.Do(SubmitRun{"more", RequestFor("")}));
}

TEST(ClusterEngine, RunsOfALostNodeMoveAndItsResultIsStale) {
  TestCluster cluster;
  const std::uint64_t first = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  cluster.WriteAll();
  const RunAttempt given = cluster.WorkOf("n1", first).start.at(0).Attempt();
  cluster.Pass(seconds(2));
  EXPECT_EQ(cluster.engine().Nodes(InstantFromNs(0))[0].state, NodeState::kSuspect);
  const std::uint64_t second = cluster.Hello(NodeNamed("n2"));
  cluster.Pass(seconds(3));
  cluster.WriteAll();
  ASSERT_EQ(cluster.engine().Nodes(InstantFromNs(0)).size(), 1U);
  const NodeWork work = cluster.WorkOf("n2", second);
  ASSERT_EQ(work.start.size(), 1U);
  EXPECT_EQ(work.start[0].attempt, 2U);
  EXPECT_EQ(cluster.Do(ResultCame{"n1", first, given, ResultSaying("old")}).error().code, Errc::kNotFound);
  const std::uint64_t again = cluster.Hello(NodeNamed("n1"), {given});
  ASSERT_TRUE(cluster.Do(ResultCame{"n1", again, given, ResultSaying("old")}));
  EXPECT_EQ(cluster.unwritten(), 0U);
  EXPECT_TRUE(cluster.engine().IsTaken("n1", given)) << "an unwanted result need not be kept";
  EXPECT_EQ(cluster.WorkOf("n1", again).drop, std::vector{given});
  ASSERT_TRUE(cluster.Do(ResultCame{"n2", second, work.start[0].Attempt(), ResultSaying("new")}));
  cluster.WriteAll();
  EXPECT_EQ(cluster.engine().FindRun("r")->result.text, "new");
  EXPECT_EQ(cluster.engine().Counts().moved_total, 1U);
}

TEST(ClusterEngine, TheNextLeaderDoesNotWaitForALostNode) {
  TestCluster cluster;
  cluster.Hello(NodeNamed("n1"));
  cluster.Pass(seconds(5));
  cluster.WriteAll();
  cluster.Lead();
  EXPECT_TRUE(cluster.engine().Nodes(InstantFromNs(0)).empty());
}

const ClusterRun& RunOn(const ClusterEngine& engine, const std::string& device) {
  const auto at = std::ranges::find(engine.runs(), device, [](const auto& entry) { return entry.second.device; });
  EXPECT_NE(at, engine.runs().end()) << device;
  return at->second;
}

TEST(ClusterEngine, ARemovedDeviceLosesOnlyItsOwnRuns) {
  TestCluster cluster;
  const ClusterNode both = NodeNamed("n1", 2);
  std::uint64_t session = cluster.Hello(both);
  for (const char* id : {"a", "b"}) ASSERT_TRUE(cluster.Do(SubmitRun{id, RequestFor(id)}));
  cluster.WriteAll();
  std::vector<RunAttempt> has;
  for (const ClusterRun& run : cluster.WorkOf("n1", session).start) has.push_back(run.Attempt());
  const ClusterRun stays = RunOn(cluster.engine(), "d1"), moves = RunOn(cluster.engine(), "d0");
  ClusterNode one = both;
  one.devices.erase(one.devices.begin());
  session = cluster.Hello(one, has);
  EXPECT_EQ(*cluster.engine().FindRun(stays.id), stays);
  EXPECT_EQ(cluster.engine().FindRun(moves.id)->attempt, 2U);
  EXPECT_EQ(cluster.engine().FindRun(moves.id)->device, "d1");
  EXPECT_EQ(cluster.engine().RunsOn("n1", "d1"), 2U);
  const NodeWork work = cluster.WorkOf("n1", session);
  EXPECT_EQ(work.drop, std::vector{moves.Attempt()});
  ASSERT_EQ(work.start.size(), 1U);
  EXPECT_EQ(work.start[0].id, moves.id);
  session = cluster.Hello(both, {stays.Attempt(), work.start[0].Attempt()});
  EXPECT_TRUE(cluster.WorkOf("n1", session).empty()) << "a device that is added loses no run";
  ASSERT_TRUE(cluster.Do(SubmitRun{"c", RequestFor("c")}));
  cluster.WriteAll();
  EXPECT_EQ(RunOn(cluster.engine(), "d0").id, "c");
  cluster.Pass(seconds(5));
  EXPECT_EQ(cluster.engine().Counts().devices, 0U);
}

TEST(ClusterEngine, AChangedDeviceLosesOnlyItsOwnRuns) {
  TestCluster cluster;
  ClusterNode node = NodeNamed("n1", 2);
  cluster.Hello(node);
  for (const char* id : {"a", "b"}) ASSERT_TRUE(cluster.Do(SubmitRun{id, RequestFor(id)}));
  cluster.WriteAll();
  const ClusterRun stays = RunOn(cluster.engine(), "d0"), moves = RunOn(cluster.engine(), "d1");
  node.devices[1].capacity.memory = MiB(300);
  std::swap(node.devices[0], node.devices[1]);
  cluster.Hello(node);
  EXPECT_EQ(*cluster.engine().FindRun(stays.id), stays);
  EXPECT_EQ(cluster.engine().FindRun(moves.id)->attempt, 2U);
  EXPECT_EQ(cluster.engine().Counts().devices, 2U);
}

TEST(ClusterEngine, GivesUpARunThatKillsItsNodes) {
  TestCluster cluster;
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  for (int i = 0; i < 5; ++i) {
    cluster.Hello(NodeNamed("n" + std::to_string(i), 2));
    cluster.Pass(seconds(5));
  }
  cluster.WriteAll();
  const ClusterRun* run = cluster.engine().FindRun("r");
  EXPECT_EQ(run->state, RunState::kFailed);
  EXPECT_EQ(run->attempt, 5U);
  EXPECT_EQ(run->result.error_message, "given up after 5 attempts: its node was lost each time, at last on node n4");
}

TEST(ClusterEngine, RefusesASecondNodeWithALiveNodesName) {
  TestCluster cluster;
  cluster.Hello(NodeNamed("n1"));
  const Status refused = cluster.Do(NodeHello{NodeNamed("n1", 1, "other"), {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "another node named n1 is here (last contact 0.0 s ago): give one of them another name with --node-name");
  cluster.Lead();
  EXPECT_EQ(cluster.Do(NodeHello{NodeNamed("n1", 1, "other"), {}}).error().code, Errc::kAlreadyExists)
      << "a new leader waits for the one it knows of";
  cluster.Pass(seconds(4));
  EXPECT_TRUE(cluster.Do(NodeHello{NodeNamed("n1", 1, "other"), {}}));
}

TEST(ClusterEngine, ANewLeaderQueriesTheNodes) {
  TestCluster cluster;
  std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(cluster.Do(SubmitRun{id, RequestFor(id)}));
  cluster.WriteAll();
  const NodeWork work = cluster.WorkOf("n1", session);
  ASSERT_EQ(work.start.size(), 2U) << "as many as the device takes";
  cluster.Lead();
  EXPECT_EQ(cluster.engine().Nodes(InstantFromNs(0))[0].state, NodeState::kAwaited);
  // One of the two was lost on the way; the third never arrived.
  session = cluster.Hello(NodeNamed("n1"), {work.start[0].Attempt(), {999, 1}});
  const NodeWork again = cluster.WorkOf("n1", session);
  ASSERT_EQ(again.start.size(), 1U);
  EXPECT_EQ(again.start[0], work.start[1]) << "the same attempt";
  EXPECT_EQ(again.drop, (std::vector<RunAttempt>{{999, 1}})) << "not one of ours";
}

TEST(ClusterEngine, ARemovedRunIsEndedAtItsNode) {
  TestCluster cluster;
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(cluster.Do(SubmitRun{id, RequestFor(id)}));
  cluster.WriteAll();
  const NodeWork work = cluster.WorkOf("n1", session);
  ASSERT_TRUE(cluster.Do(RemoveRun{"a"}));
  EXPECT_NE(cluster.engine().FindRun("a"), nullptr) << "not yet written";
  cluster.WriteAll();
  EXPECT_EQ(cluster.engine().FindRun("a"), nullptr);
  const NodeWork next = cluster.WorkOf("n1", session);
  EXPECT_EQ(next.drop, std::vector{work.start[0].Attempt()});
  ASSERT_EQ(next.start.size(), 1U);
  EXPECT_EQ(next.start[0].id, "c");
}

TEST(ClusterEngine, OneIdTwiceIsTwoRuns) {
  TestCluster cluster;
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  cluster.WriteAll();
  const RunAttempt old = cluster.WorkOf("n1", session).start.at(0).Attempt();
  ASSERT_TRUE(cluster.Do(RemoveRun{"r"}));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("y")}));
  cluster.WriteAll();
  ASSERT_TRUE(cluster.Do(ResultCame{"n1", session, old, ResultSaying("of x")}));
  cluster.WriteAll();
  EXPECT_EQ(cluster.engine().FindRun("r")->state, RunState::kRunning);
}

TEST(ClusterEngine, AResultOfAnEarlierAttemptOfTheSameNodeDoesNotCount) {
  TestCluster cluster;
  const std::uint64_t first = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  cluster.WriteAll();
  const RunAttempt earlier = cluster.WorkOf("n1", first).start.at(0).Attempt();
  cluster.Pass(seconds(5));
  const std::uint64_t again = cluster.Hello(NodeNamed("n1"), {earlier});
  const NodeWork work = cluster.WorkOf("n1", again);
  ASSERT_EQ(work.start.size(), 1U);
  EXPECT_EQ(work.start[0].attempt, 2U);
  ASSERT_TRUE(cluster.Do(ResultCame{"n1", again, earlier, ResultSaying("early")}));
  cluster.WriteAll();
  EXPECT_EQ(cluster.engine().FindRun("r")->state, RunState::kRunning);
}

TEST(ClusterEngine, AResultOfANodeThatDoesNotRunItDoesNotCount) {
  TestCluster cluster;
  const std::uint64_t first = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  cluster.WriteAll();
  const RunAttempt given = cluster.WorkOf("n1", first).start.at(0).Attempt();
  const std::uint64_t second = cluster.Hello(NodeNamed("n2"));
  ASSERT_TRUE(cluster.Do(ResultCame{"n2", second, given, ResultSaying("not mine")}));
  cluster.WriteAll();
  EXPECT_EQ(cluster.engine().FindRun("r")->state, RunState::kRunning);
}

TEST(ClusterEngine, ARequestOfAnEndedSessionGetsNoWork) {
  // The request was sent before the member of the node was restarted, and comes late: its answer has no receiver.
  TestCluster cluster;
  const std::uint64_t before = cluster.Hello(NodeNamed("n1"));
  const std::uint64_t now = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"r", RequestFor("x")}));
  cluster.WriteAll();
  EXPECT_EQ(cluster.Do(TakeWork{"n1", before}).error().code, Errc::kNotFound);
  EXPECT_EQ(cluster.WorkOf("n1", now).start.size(), 1U);
}

TEST(ClusterEngine, TheNextLeaderDoesNotReuseTheNumberOfAForgottenRun) {
  TestCluster cluster;
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  ASSERT_TRUE(cluster.Do(SubmitRun{"a", RequestFor("x")}));
  cluster.WriteAll();
  const RunAttempt old = cluster.WorkOf("n1", session).start.at(0).Attempt();
  ASSERT_TRUE(cluster.Do(RemoveRun{"a"}));
  cluster.WriteAll();
  cluster.Lead();  // from a store without the run, which the node still has
  const std::uint64_t again = cluster.Hello(NodeNamed("n1"), {old});
  ASSERT_TRUE(cluster.Do(SubmitRun{"b", RequestFor("y")}));
  cluster.WriteAll();
  const NodeWork work = cluster.WorkOf("n1", again);
  ASSERT_EQ(work.start.size(), 1U);
  EXPECT_NE(work.start[0].number, old.number);
  EXPECT_EQ(work.drop, std::vector{old});
}

TEST(ClusterEngine, LearnsHowRunsDisturbEachOther) {
  TestCluster cluster;
  cluster.Lead("interference-aware");
  const std::uint64_t session = cluster.Hello(NodeNamed("n1"));
  RunRequest request = RequestFor("x");
  request.need = {MiB(1), {0, 50, 0, 0}, 1'000};
  request.need_alone = true;
  for (const char* id : {"a", "b"}) ASSERT_TRUE(cluster.Do(SubmitRun{id, request}));
  cluster.WriteAll();
  const NodeWork work = cluster.WorkOf("n1", session);
  const auto predicted = [&] {
    ASSERT_TRUE(cluster.Do(SubmitRun{"c", request}));
    const auto all = cluster.engine().ExplainRun("c");
    ASSERT_EQ(all->size(), 1U);
    EXPECT_EQ(all->at(0).node, "n1");
    EXPECT_FALSE(all->at(0).candidate.room);
    ASSERT_TRUE(cluster.Do(RemoveRun{"c"}));
  };
  predicted();
  cluster.Pass(seconds(1));
  RunResult slow = ResultSaying("");
  slow.seconds = 3;  // beside one run of its kind, all the time
  ASSERT_TRUE(cluster.Do(ResultCame{"n1", session, work.start[0].Attempt(), slow}));
  const auto explained = cluster.engine().ExplainRun("b");
  ASSERT_TRUE(explained);
  // 3 = 1 + w · 0.5 · 0.5 with the weight w of traffic; two such runs are beside each other.
  EXPECT_NEAR(explained->at(0).candidate.predicted.slowdown, 3, 0.2);
  EXPECT_EQ(explained->at(0).candidate.predicted.known, 1U);  // as a pair, too
}

}  // namespace
}  // namespace weir::engine
