// SPDX-License-Identifier: Apache-2.0
// One manager of a cluster: the service API and the members' API over HTTP, the engine while it leads, and the two
// threads that talk to the store. The loop never blocks. Page: docs/cluster.md
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "cluster/audit_log.h"
#include "cluster/state_store.h"
#include "cluster/state_threads.h"
#include "engine/cluster_engine.h"
#include "http/held_replies.h"
#include "http/server.h"
#include "modules/blob_keeper.h"
#include "modules/blob_worker.h"
#include "modules/module_store.h"

namespace weir::cluster {

struct ManagerOptions {
  std::string self;           // HOST:PORT at which other managers reach this one
  std::string placement;      // a name of core::PlacementTable
  std::string token = {};     // of clients without TLS; empty: every such client has full access
  bool tls = false;           // every request has a holder, whose role decides (access.h)
  AuditLog* audit = nullptr;  // null: no log
  bool quiet = false;
  engine::ClusterBounds bounds = {};
  Duration keep_blobs = modules::kKeepBlobs;  // grace time of unreferenced blobs; zero: they are kept
};

class Manager {
 public:
  /// `fatal` reports that the stored state can't be read. Called in the loop's thread.
  Manager(boost::asio::io_context& loop, StateStore& store, modules::ModuleStore blobs, ManagerOptions options,
          std::function<void(Error)> fatal);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  void Handle(const http::Request& request, http::Respond respond);
  /// The reply that refuses a request without a valid token, or beyond its holder's rights; empty: the request is
  /// accepted. Needs only the request's head.
  [[nodiscard]] std::optional<http::Reply> Refusal(const http::Request& head) const;

 private:
  /// A module that a node loads to find its kernels, because a manager runs no native code.
  struct Inspection {
    std::string name, blob;  // of the module
    Instant given{};         // when it was last given to a node
    std::optional<Status> outcome;
    std::uint64_t sequence = 0;  // number of the write that registers it
  };

  /// Empty while this manager does not lead: it then does not know the blobs.
  [[nodiscard]] std::optional<std::vector<std::string>> NamedBlobs() const;
  void TakeLead(Lead lead, const std::vector<Entry>& entries);
  void StepDown(const std::string& leader, const std::string& why);
  /// Handles one event, sends its writes, and answers the requests that are now due.
  Status Step(const engine::ClusterEvent& event, engine::ClusterActions& actions);
  void SendWrites(engine::ClusterActions& actions);
  void ArmTimer();
  /// Answers once all changes decided so far are stored.
  void WhenConfirmed(std::function<http::Reply()> answer, http::Respond respond);

  http::Reply NotLeading() const;
  void HandleBlob(const http::Request& request, const std::string& blob, http::Respond respond);
  void HandleModules(const http::Request& request, const std::string& name, http::Respond respond);
  void HandleRuns(const http::Request& request, const std::string& id, http::Respond respond);
  void Inspect(const std::string& name, const std::string& blob, http::Respond respond);
  void Inspected(const std::string& name, const http::Request& request, const http::Respond& respond);
  [[nodiscard]] bool HasInspection() const;
  void Hello(const std::string& name, const http::Request& request, http::Respond respond);
  void Work(const std::string& name, const http::Request& request, http::Respond respond);
  void Parts(const std::string& name, const http::Request& request, const http::Respond& respond);
  void Results(const std::string& name, const http::Request& request, http::Respond respond);
  /// The run; null: there is none that the holder may see.
  const engine::ClusterRun* RunFor(const http::Holder& holder, const std::string& id) const;
  http::Reply RunReply(const http::Holder& holder, const std::string& id, unsigned status) const;
  http::Reply Explain(const http::Holder& holder, const std::string& id);
  http::Reply ListRuns(const http::Holder& holder) const;
  void Dispatch(const http::Request& request, http::Respond respond);
  http::Reply ListNodes() const;
  http::Reply ListDevices() const;
  http::Reply ListModules() const;
  http::Reply ShowCluster() const;
  http::Reply Metrics() const;

  boost::asio::io_context& loop_;
  StateStore& store_;
  const modules::ModuleStore blobs_;
  const ManagerOptions options_;
  const std::function<void(Error)> fatal_;
  std::unique_ptr<engine::ClusterEngine> engine_;  // null unless this manager leads
  std::unique_ptr<StateWriter> writer_;            // null unless this manager leads
  Lead lead_;
  std::string leader_;  // address of another leader; empty: none is known
  std::string why_not_;
  std::uint64_t led_ = 0;  // how often this manager has taken the lead
  http::HeldReplies replies_;
  std::list<std::shared_ptr<Inspection>> inspections_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  modules::BlobKeeper blob_keeper_;
  modules::BlobWorker blob_worker_;
  std::unique_ptr<LeadKeeper> keeper_;  // declared last: its thread ends first
};

}  // namespace weir::cluster
