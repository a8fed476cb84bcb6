// SPDX-License-Identifier: Apache-2.0
// Laws of a cluster, with nodes, leaders and writes lost at drawn moments.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/cluster_engine.h"
#include "tests/harness/test_cluster.h"

namespace weir::engine {
namespace {

/// A model of a node. It runs what it is given, and may die or lose an answer at any time.
struct TestNode {
  ClusterNode record;
  bool alive = true;
  std::uint64_t session = 0;                   // 0: it must say hello
  std::map<RunAttempt, std::string> has = {};  // empty text: still running
};

/// A cluster with three nodes, and records of what clients asked for and what the engine has promised.
struct DrawnCluster {
  DrawnCluster() {
    for (int i = 0; i < 3; ++i) nodes.push_back({.record = NodeNamed("n" + std::to_string(i), 1 + i % 2)});
  }
  void Check() {
    for (const auto& [id, run] : cluster.engine().runs()) {
      RC_ASSERT(asked.contains(id));
      owed.insert(id);
      RC_ASSERT(cluster.stored().contains(id));
      if (!run.ended()) continue;
      RC_ASSERT(cluster.stored().at(id) == run);
      const auto [first, fresh] = given_out.emplace(id, run.result.text + run.result.error_message);
      RC_ASSERT(first->second == run.result.text + run.result.error_message);
      if (run.state == RunState::kDone) RC_ASSERT(executed.at(run.result.text) == run.Attempt());
    }
    for (const std::string& id : owed) RC_ASSERT(cluster.engine().FindRun(id) != nullptr);
  }
  void Hello(TestNode& node) {
    std::vector<RunAttempt> has;
    for (const auto& [attempt, text] : node.has) has.push_back(attempt);
    ClusterActions actions;
    RC_ASSERT(cluster.Do(NodeHello{node.record, has}, &actions).has_value());
    node.session = actions.session;
  }
  void Work(TestNode& node, bool answer_lost) {
    ClusterActions actions;
    if (!cluster.Do(TakeWork{node.record.name, node.session}, &actions) || answer_lost) {
      node.session = 0;
      return;
    }
    for (const RunAttempt& attempt : actions.work.drop) node.has.erase(attempt);
    for (const ClusterRun& run : actions.work.start) {
      RC_ASSERT(cluster.stored().at(run.id) == run);
      RC_ASSERT(node.has.emplace(run.Attempt(), "").second);
    }
    RC_ASSERT(node.has.size() <= 2 * node.record.devices.size() + 16);
  }
  void Finish(TestNode& node, std::size_t which) {
    if (node.has.empty()) return;
    auto& [attempt, text] = *std::next(node.has.begin(), static_cast<std::ptrdiff_t>(which % node.has.size()));
    if (!text.empty()) return;
    text = "execution " + std::to_string(++executions);
    executed[text] = attempt;
  }
  void Report(TestNode& node) {
    for (auto at = node.has.begin(); at != node.has.end();) {
      if (!at->second.empty() &&
          !cluster.Do(ResultCame{node.record.name, node.session, at->first, ResultSaying(at->second)})) {
        node.session = 0;
        return;
      }
      const bool taken = !at->second.empty() && cluster.engine().IsTaken(node.record.name, at->first);
      at = taken ? node.has.erase(at) : std::next(at);
    }
  }
  /// One event, drawn from 0 to 9999.
  void Step(int step) {
    TestNode& node = nodes[static_cast<std::size_t>(step / 100 % 3)];
    const auto drawn = static_cast<std::size_t>(step / 300);
    switch (step % 100 / 8) {
      case 0:
      case 1:
        asked.insert("r" + std::to_string(next_run));
        RC_ASSERT(cluster.Do(SubmitRun{"r" + std::to_string(next_run++), RequestFor("", drawn % 3 * 100)}).has_value());
        break;
      case 2:
      case 3: cluster.Write(drawn % 5 + 1); break;
      case 4:
        if (drawn % 2 == 0) cluster.Write(drawn % 4, /*told=*/false);
        cluster.Lead();
        for (TestNode& each : nodes) each.session = 0;
        break;
      case 5:
        node.alive = drawn % 3 != 0;
        node.session = 0;
        node.has.clear();
        break;
      case 6: cluster.Pass(drawn % 4 == 0 ? seconds(5) : milliseconds(300)); break;
      case 7:
        if (given_out.empty()) break;
        {
          const auto gone = std::next(given_out.begin(), static_cast<std::ptrdiff_t>(drawn % given_out.size()));
          if (!cluster.Do(RemoveRun{gone->first})) break;
          owed.erase(gone->first);
          cluster.WriteAll();
          given_out.erase(gone);
        }
        break;
      default:
        if (!node.alive) break;
        if (node.session == 0)
          Hello(node);
        else if (step % 3 == 0)
          Work(node, drawn % 5 == 0);
        else if (step % 3 == 1)
          Finish(node, drawn);
        else
          Report(node);
    }
  }
  /// Faults end: every confirmed run completes.
  void EndFaults() {
    for (TestNode& node : nodes) node.alive = true;
    for (int round = 0; round < 400; ++round) {
      for (TestNode& node : nodes) {
        if (node.session == 0) Hello(node);
        Work(node, false);
        for (std::size_t i = 0; i < 8; ++i) Finish(node, i);
        if (node.session != 0) Report(node);
      }
      cluster.WriteAll();
      Check();
      if (std::ranges::all_of(cluster.engine().runs(), [](const auto& entry) { return entry.second.ended(); })) break;
    }
    for (const auto& [id, run] : cluster.engine().runs()) RC_ASSERT(run.ended());
  }

  TestCluster cluster;
  std::vector<TestNode> nodes;
  std::set<std::string> asked;                   // submitted, perhaps not stored yet
  std::set<std::string> owed;                    // confirmed and not removed
  std::map<std::string, std::string> given_out;  // results as first reported
  std::map<std::string, RunAttempt> executed;    // by result text: the attempt that produced it
  int next_run = 0, executions = 0;
};

/// Laws 1 to 5 and 8 of docs/cluster.md, with nodes, leaders and writes lost at drawn moments.
RC_GTEST_PROP(ClusterEngineLaws, NoRunIsLostAndEachHasOneResult, ()) {
  DrawnCluster drawn;
  for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 10'000))) {
    drawn.Step(step);
    drawn.Check();
  }
  drawn.EndFaults();
}

}  // namespace
}  // namespace weir::engine
