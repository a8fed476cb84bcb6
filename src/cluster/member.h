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
#include "cluster/parts_room.h"
#include "http/message.h"

namespace weir::cluster {

/// What the node has to do with parts of launches (docs/partition.md, "Peers through the manager").
struct PartsMembership {
  std::string control_socket;  // of the node's daemon
  std::string executor;        // the program that says what the node's device is
  std::string library;         // the vendor's; empty: the first that works
  std::string vgpu;            // offered; empty: none is
  std::string host;            // where others reach the portal, whose port is in `port_file`
  std::string port_file;
  bool plain = false;   // the portal wants no token
  bool wanted = false;  // the daemon is told what others offer
};

struct MemberOptions {
  std::vector<Address> managers;
  std::string token;  // empty: none
  std::string name;   // of the node
  std::string identity;
  std::string modules_socket;  // empty: the node runs no modules, and has no devices for the manager
  std::optional<PartsMembership> parts = {};
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

  // Three threads: one talks to the manager, one to the node, one gives results back; a fourth where the node offers
  // or wants parts. Each asks and waits for itself.
  [[noreturn]] void TalkToManager();
  [[noreturn]] void TalkToNode();
  [[noreturn]] void GiveResultsBack();
  [[noreturn]] void TalkAboutParts();  // member_parts.cc

  bool Hello();
  bool TakeWork();
  bool NodePass();
  /// Says what the node offers, and tells the daemon what others do.
  Status PartsPass(const PartsDevice& device);
  Result<engine::PartsOffer> OfferNow(const PartsDevice& device);
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
  std::string told_;             // the daemon, of others' parts; of the thread that talks about them
  std::string said_;
};

}  // namespace weir::cluster
