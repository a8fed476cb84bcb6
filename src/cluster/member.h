// SPDX-License-Identifier: Apache-2.0
// A node's membership: says hello to the managers, takes runs, hands them to the node's modules.sock, and gives results
// back until a manager has confirmed them. Opens connections only. It keeps nothing that the node does not know: one
// that is started again asks the node what it has. Page: docs/cluster.md
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cluster/addresses.h"
#include "cluster/cluster_json.h"
#include "http/message.h"

namespace weir::cluster {

struct MemberOptions {
  std::vector<Address> managers;
  std::string token;  // empty: none
  std::string name;   // of the node
  std::string identity;
  std::string modules_socket;
  bool quiet = false;
};

class Member {
 public:
  explicit Member(MemberOptions options);
  /// For ever: a member may be ended at any time.
  [[noreturn]] void Run();

 private:
  struct Held {
    std::string body;  // for the node; empty: the node had it before this member was started
    std::string blob, input;
    std::optional<engine::RunResult> result;
  };

  // Three threads: one talks to the manager, one to the node, one gives results back. Each asks and waits for itself.
  [[noreturn]] void TalkToManager();
  [[noreturn]] void TalkToNode();
  [[noreturn]] void GiveResultsBack();

  bool Hello();
  bool TakeWork();
  bool NodePass();
  void Submit(engine::RunAttempt attempt, const Held& held);
  /// What a module has, as the node found by trying it; told to the manager.
  void Inspect(const std::string& blob, std::uint64_t session);
  Result<nlohmann::json> KernelsByNode(const std::string& blob);
  Status BringBlob(const std::string& blob);
  Status GiveBlob(const std::string& blob);
  void EndWith(engine::RunAttempt attempt, engine::RunResult result);

  Result<http::Answer> AskManager(http::Call call, Duration timeout);
  Result<nlohmann::json> AskManagerFor(http::Call call, Duration timeout);
  Result<http::Answer> AskNode(http::Call call, Duration timeout);
  Result<nlohmann::json> AskNodeFor(http::Call call, Duration timeout);
  void NextManager(std::size_t after);
  void SayOnce(const std::string& what);

  const MemberOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t manager_ = 0;
  std::uint64_t session_ = 0;  // 0: none
  bool node_known_ = false;    // what it has was read
  Instant node_heard_{};
  std::vector<engine::NodeDevice> devices_;
  std::map<engine::RunAttempt, Held> held_;
  std::set<std::string> given_;  // blobs that the manager has
  std::string said_;
};

}  // namespace weir::cluster
