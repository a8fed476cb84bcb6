// SPDX-License-Identifier: Apache-2.0
// A cluster's engine with its store, for tests that decide which writes reach the store and when its leader changes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/placement/placement_table.h"
#include "engine/cluster_engine.h"

namespace weir::engine {

inline const core::DeviceCapacity kSmallDevice{.memory = MiB(400), .runs_max = 2, .loads = {100, 100, 100, 100}};
inline const std::string kBlobOfTests(64, 'a');

inline RunRequest RequestFor(const std::string& arguments, std::uint64_t mib = 1) {
  return {.module = "m",
          .blob = kBlobOfTests,
          .kernel = "k",
          .arguments = arguments,
          .input = {},
          .need = {MiB(mib), {}, 100}};
}
inline ClusterNode NodeNamed(const std::string& name, int devices = 1, std::string identity = "") {
  ClusterNode node{.name = name, .identity = identity.empty() ? "id-" + name : identity, .devices = {}};
  for (int i = 0; i < devices; ++i) node.devices.push_back({"d" + std::to_string(i), kSmallDevice});
  return node;
}

/// The store, and a leader whose writes reach it when a test says so.
class TestCluster {
 public:
  TestCluster() { Lead(); }

  /// Starts a new leader from the stored records.
  void Lead(std::string placement = "spread") {
    engine_ = std::make_unique<ClusterEngine>(core::MakePlacement(placement, {}).value(), ++fence_);
    unwritten_.clear();
    ClusterRecords records;
    for (const auto& [name, run] : runs_) records.runs.push_back(run);
    for (const auto& [name, node] : nodes_) records.nodes.push_back(node);
    for (const auto& [name, module] : modules_) records.modules.push_back(module);
    ClusterActions actions;
    engine_->Restore(now_, records, actions);
    Take(actions);
  }
  Status Do(const ClusterEvent& event, ClusterActions* seen = nullptr) {
    ClusterActions actions;
    const Status status = engine_->Step(now_, event, actions);
    if (!status && !actions.writes.empty()) ADD_FAILURE() << "refused, and yet it writes";
    Take(actions);
    if (seen != nullptr) *seen = actions;
    return status;
  }
  /// The first `count` writes reach the store; the leader learns of it if `told`.
  void Write(std::size_t count, bool told = true) {
    count = std::min(count, unwritten_.size());
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const RecordWrite& write = unwritten_[i];
      last = write.sequence;
      switch (write.kind) {
        case RecordWrite::Kind::kRun: Put(runs_, write); break;
        case RecordWrite::Kind::kNode: Put(nodes_, write); break;
        case RecordWrite::Kind::kModule: Put(modules_, write); break;
      }
    }
    unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(count));
    if (!told || count == 0) return;
    EXPECT_TRUE(Do(Stored{last}));
  }
  void WriteAll() { Write(unwritten_.size()); }
  void Pass(Duration time) {
    now_ += time;
    ASSERT_TRUE(Do(LookAround{}));
  }
  std::uint64_t Hello(const ClusterNode& node, std::vector<RunAttempt> has = {}) {
    ClusterActions actions;
    const Status status = Do(NodeHello{node, std::move(has)}, &actions);
    EXPECT_TRUE(status) << status.error().message;
    WriteAll();
    return actions.session;
  }
  NodeWork WorkOf(const std::string& name, std::uint64_t session) {
    ClusterActions actions;
    EXPECT_TRUE(Do(TakeWork{name, session}, &actions));
    return actions.work;
  }
  ClusterEngine& engine() { return *engine_; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const std::map<std::string, ClusterRun>& stored() const { return runs_; }
  [[nodiscard]] std::size_t unwritten() const { return unwritten_.size(); }

 private:
  template <typename Record>
  static void Put(std::map<std::string, Record>& records, const RecordWrite& write) {
    if (write.record)
      records[write.name] = std::get<Record>(*write.record);
    else
      records.erase(write.name);
  }
  void Take(const ClusterActions& actions) {
    unwritten_.insert(unwritten_.end(), actions.writes.begin(), actions.writes.end());
  }

  Instant now_ = InstantFromNs(1'000'000'000);
  std::uint64_t fence_ = 0;
  std::unique_ptr<ClusterEngine> engine_;
  std::vector<RecordWrite> unwritten_;
  std::map<std::string, ClusterRun> runs_;
  std::map<std::string, ClusterNode> nodes_;
  std::map<std::string, ClusterModule> modules_;
};

inline RunResult ResultSaying(const std::string& text) { return {.failed = false, .output = {}, .text = text}; }

}  // namespace weir::engine
