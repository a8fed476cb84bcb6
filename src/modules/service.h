// SPDX-License-Identifier: Apache-2.0
// weir-modules: a node's module service. It answers the API, keeps the store and the run queue, and runs a host for
// each device. It loads no driver and no module. Page: docs/modules.md
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "http/held_replies.h"
#include "http/server.h"
#include "modules/blob_keeper.h"
#include "modules/blob_worker.h"
#include "modules/host_process.h"
#include "modules/module_store.h"
#include "modules/run_book.h"
#include "modules/run_json.h"
#include "platform/namespaces.h"

namespace weir::modules {

struct ServiceOptions {
  std::string host;     // the program weir-module-host
  std::string opencl;   // the OpenCL socket of the vGPU in which hosts compute; empty: they use the system's OpenCL
  std::string user_of;  // hosts run as the owner of this folder; empty: as this process's user
  std::vector<std::string> groups{};  // folders with a control group for each user, which hosts with a user enter
  std::string state_file;             // keeps registered modules across restarts; empty: they are not kept
  std::string placement = std::string(core::kDefaultPlacement);
  std::uint32_t units = 0;                // compute units of a part of a device; 0: whole devices
  std::uint32_t concurrent_max = 16;      // concurrent runs on a device (16 on Fermi: gCloud, section III)
  std::optional<core::Loads> capacity{};  // of a device; empty: estimated from its compute units
  std::uint64_t keep_bytes = 0;           // residual data for each device; 0: a quarter of its memory
  Duration keep_blobs{};                  // grace time of unreferenced blobs; zero: they are kept
  bool fresh = false;                     // a new host for each run, to measure the benefit of a kept context
};

class Service {
 public:
  static Result<std::unique_ptr<Service>> Start(boost::asio::io_context& loop, ModuleStore store,
                                                ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void Handle(const http::Request& request, http::Respond respond);

  /// For the member of a cluster in this process. Called in the loop's thread.
  struct Reports {
    std::function<void(const Run&)> run_ended{};
    std::function<void()> devices_changed{};
  };
  void ReportTo(Reports reports) { reports_ = std::move(reports); }

 private:
  /// A device and its host, if one runs.
  struct Slot {
    DeviceId id{};
    std::unique_ptr<HostProcess> host;
    std::unique_ptr<boost::asio::steady_timer> restart;
    Duration pause{};         // delay before the next start
    bool serves = false;      // its DeviceFrame has arrived
    std::string model, name;  // from the last DeviceFrame
    core::Loads capacity{};   // from the last DeviceFrame
    core::RunId guilty{};     // the run that its CrashFrame named
    std::string why;
    std::string complained;                 // the last logged problem, so that it is logged once
    bool used = false;                      // this host has run something
    std::optional<ExecuteFrame> pending{};  // with `fresh`: waits for a new host
  };
  struct Inspection {
    std::string name, blob;
    std::unique_ptr<HostProcess> host;
    std::unique_ptr<boost::asio::steady_timer> deadline;
    http::Respond respond;  // empty: already answered
  };

  Service(boost::asio::io_context& loop, ModuleStore store, std::unique_ptr<core::Placement> placement,
          ServiceOptions options);
  [[nodiscard]] std::vector<std::string> NamedBlobs() const;
  /// An error names the file and says how to recover. The service must not start then: its first change would replace
  /// the file.
  Status LoadModules();
  void SaveModules();

  // Hosts (service_hosts.cc).
  bool HasVgpu(Slot& slot) const;
  [[nodiscard]] Result<HostProcess::Rights> HostRights() const;
  void StartHost(Slot& slot);
  void StartHostLater(Slot& slot);
  void OnFrame(Slot& slot, HostFrame frame, const std::vector<platform::Fd>& fds);
  void OnDevice(Slot& slot, const DeviceFrame& frame);
  void OnDone(Slot& slot, const DoneFrame& frame, const std::vector<platform::Fd>& fds);
  void OnHostEnd(Slot& slot, const std::string& how);
  void Inspect(const std::string& name, const std::string& blob, http::Respond respond);
  void OnInspected(std::uint64_t number, const HostFrame& frame);
  void AnswerInspection(std::uint64_t number, http::Reply reply);
  void Apply(std::vector<BookAction>& actions);
  void Execute(Slot& slot, ExecuteFrame order);
  void OnOver(core::RunId run);
  void DropBlob(const std::string& blob);
  void ForgetDropped(const std::string& blob);
  void ArmDeadline();

  // The API (service_api.cc).
  void HandleModule(const http::Request& request, const std::string& name, http::Respond respond);
  void HandleRun(const http::Request& request, const std::string& id, http::Respond respond);
  Result<http::Reply> PutRun(const http::Request& request, const std::string& id);

  boost::asio::io_context& loop_;
  const ModuleStore store_;
  BlobWorker blobs_;
  const ServiceOptions options_;
  /// Hosts that run as another user get namespaces of their own, where this process may make them.
  const bool own_namespaces_ = !options_.user_of.empty() && platform::WhyNoOwnNamespaces().empty();
  RunBook book_;
  std::map<DeviceId, Slot> slots_;
  std::map<std::string, RegisteredModule> modules_;
  std::set<std::string> dropped_;  // blobs that are no longer registered but still used by runs
  // Keyed by a number, so that an expired timer notices when its entry has been removed.
  std::map<std::uint64_t, Inspection> inspections_;
  std::uint64_t last_number_ = 0;
  http::HeldReplies replies_;
  boost::asio::steady_timer deadline_;
  std::unique_ptr<BlobKeeper> keeper_;
  Reports reports_;
};

}  // namespace weir::modules
