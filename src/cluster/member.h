// SPDX-License-Identifier: Apache-2.0
// A node's membership in a cluster: registers with the managers, fetches runs, submits them to the node's module
// service, and returns results until a manager has confirmed them. Opens connections only. All its state is also in the
// node, so that a restarted member reads it from there. Page: docs/cluster.md
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/addresses.h"
#include "cluster/cluster_json.h"
#include "cluster/member_state.h"
#include "cluster/node_modules.h"
#include "cluster/parts_room.h"
#include "http/message.h"
#include "http/tls/client.h"

namespace weir::cluster {

/// The node's settings for parts of launches (docs/partition.md, "Peers through the manager").
struct PartsMembership {
  std::string control_socket;  // of the node's daemon
  std::string executor;        // the program that describes the node's device
  std::string library;         // the vendor's OpenCL library; empty: the first that works
  std::string vgpu;            // the vGPU that is offered; empty: none
  std::string host;            // host of the portal's address; its port is in `port_file`
  std::string port_file;
  bool plain = false;   // the portal needs no token
  bool wanted = false;  // the daemon receives the offers of other nodes
};

struct MemberOptions {
  std::vector<Address> managers;
  http::tls::Access access{};  // to the managers
  std::string name;            // of this node
  std::string identity;
  std::optional<PartsMembership> parts = {};
  bool quiet = false;
};

class Member {
 public:
  /// `modules`: null if the node runs no modules. The member then reports no devices.
  Member(MemberOptions options, NodeModules* modules);
  /// Runs until the process is ended, which may happen at any time.
  [[noreturn]] void Run();

  // Reports of a module service that makes them (NodeModules::reports). Any thread may call them.
  /// `run`: as the service's API shows it.
  void RunEnded(const nlohmann::json& run);
  void DevicesChanged();

 private:
  struct Held {
    std::string body;  // the request for the node; empty: the node had it before this member started
    std::string blob, input;
    std::optional<engine::RunResult> result;
  };

  // Three threads: for the manager, for the node, and for returning results; a fourth if the node offers or wants
  // parts. Each thread blocks on its own requests.
  [[noreturn]] void TalkToManager();
  [[noreturn]] void TalkToNode();
  [[noreturn]] void GiveResultsBack();
  [[noreturn]] void TalkAboutParts();  // member_parts.cc

  bool Hello();
  bool TakeWork();
  bool NodePass();
  /// Sends the node's offer to the manager, and the other nodes' offers to the daemon.
  Status PartsPass(const PartsDevice& device);
  Result<engine::PartsOffer> OfferNow(const PartsDevice& device);
  void Submit(engine::RunAttempt attempt, const Held& held);
  /// Lets the node load a module to find its kernels, and reports them to the manager.
  void Inspect(const std::string& blob, std::uint64_t session);
  Result<nlohmann::json> KernelsByNode(const std::string& blob);
  Status BringBlob(const std::string& blob);
  Status GiveBlob(const std::string& blob);
  void EndWith(engine::RunAttempt attempt, engine::RunResult result);

  Result<http::Answer> AskManager(http::Call call, Duration timeout);
  Result<nlohmann::json> AskManagerFor(http::Call call, Duration timeout);
  Result<http::Answer> AskNode(const http::Call& call, Duration timeout);
  Result<nlohmann::json> AskNodeFor(const http::Call& call, Duration timeout);
  void NextManager(std::size_t after);
  void SayOnce(const std::string& what);

  const MemberOptions options_;
  NodeModules* const modules_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t manager_ = 0;
  std::uint64_t session_ = 0;  // 0: no session
  bool node_known_ = false;    // the node's runs and devices have been read
  bool look_at_node_ = false;  // the node has reported that its devices have changed
  Instant node_heard_{};
  KnownDevices devices_;
  std::map<engine::RunAttempt, Held> held_;
  GivenBlobs given_;
  std::string told_;  // the last list of offers sent to the daemon; used by the thread for parts only
  std::string said_;
};

}  // namespace weir::cluster
