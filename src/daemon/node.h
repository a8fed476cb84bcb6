// SPDX-License-Identifier: Apache-2.0
// The node at run time: one engine, its gates, and the loop that carries events in and actions out. One thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/device_use.h"
#include "daemon/event_log.h"
#include "daemon/executor_host.h"
#include "daemon/fd_watch.h"
#include "daemon/frame_log.h"
#include "daemon/portal_line.h"
#include "daemon/saved_node.h"
#include "engine/node_engine.h"
#include "gate/host.h"
#include "platform/accept_pause.h"

namespace weir::daemon {

/// Gates are looked at this often even when nothing calls for it: heartbeats, records, marks of use.
inline constexpr Duration kHousekeeping = milliseconds(50);
/// A bell that rings without end does not make the daemon look more often than this.
inline constexpr Duration kLookSpacing = microseconds(200);
/// A connection must say Hello within this time.
inline constexpr Duration kHelloWithin = seconds(2);
/// And of each user that may attach no more than this wait to say it, at each vGPU.
inline constexpr std::size_t kPendingPerUidMax = 64;

/// A device of the node.
struct DeviceSetup {
  engine::DeviceSpec spec;
  ExecutorSetup executors;
  /// NAME=VALUE, for programs that use the device without an executor (`weir run` sets it).
  std::vector<std::string> environment{};
};

struct CreateRequest {
  std::string name;
  std::string device;
  engine::VgpuSettings settings;
  bool best_effort = false;
  bool ephemeral = false;
  uid_t owner_uid = 0;
  pid_t owner_pid = 0;
};

/// A vGPU as the API shows it: what the engine knows and what the gate shows.
struct VgpuReport {
  engine::VgpuStatus status;
  std::string attach;
  std::string opencl;                    // where OpenCL clients connect
  std::vector<std::string> environment;  // of its programs, for its device
  uid_t owner_uid = 0;
  bool ephemeral = false;
  std::uint64_t fail_opens = 0;
  gate::DeviceUse use;  // of its executors
  std::vector<gate::ProcessInfo> processes;
};

class Node {
 public:
  /// At least one device, with names of their own. `save` is called with the new state after every change that has to
  /// survive a restart.
  Node(boost::asio::io_context& loop, std::string run_dir, std::vector<DeviceSetup> devices,
       std::function<void(const SavedNode&)> save);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Brings saved vGPUs, policies and sales back, under their old ids and sockets. What can't be brought back is
  /// listed.
  std::vector<std::string> Restore(const SavedNode& saved);

  /// Portals hear on RUN_DIR/portals.sock which vGPUs are to leave this node.
  Status ListenForPortals();

  Result<VgpuReport> Create(const CreateRequest& request);
  Result<VgpuReport> Set(const std::string& name, const engine::VgpuSettings& settings);
  Result<VgpuReport> Pause(const std::string& name, bool paused);
  Status Remove(const std::string& name, bool force);
  Status SetPolicy(const std::string& device, const std::string& policy, const core::PolicyParams& params);
  /// Executors that run already go on as they were started. `copy_bytes_per_s` 0: as fast as it goes.
  Status SetMemory(const std::string& device, Bytes size, const core::PolicyParams& params, double copy_bytes_per_s);
  /// What the device says is in use of its memory, by whoever.
  Status SeeDeviceMemory(const std::string& device, Bytes used);
  /// What the driver's account says of a device (docs/accounting.md).
  Status SeeDeviceUse(const DeviceUse& use);
  Status SetOversell(const std::string& device, core::OversellMode mode, const core::PolicyParams& params);

  Result<VgpuReport> Vgpu(const std::string& name);
  std::vector<VgpuReport> Vgpus();
  std::vector<engine::DeviceStatus> Devices();
  [[nodiscard]] Result<engine::MemoryMap> Memory(const std::string& device) const { return engine_.Memory(device); }
  [[nodiscard]] double copy_bytes_per_s(const std::string& device);
  Result<FrameLog::Slice> Frames(const std::string& name, std::uint64_t after, std::uint64_t limit);
  [[nodiscard]] const EventLog& events() const { return events_; }
  /// When this node's events began: tells their numbers from those of the daemon before it.
  [[nodiscard]] Instant began() const { return began_; }

  [[nodiscard]] std::size_t processes() const;
  /// Somebody is attached, or a program that owns an ephemeral vGPU still lives.
  [[nodiscard]] bool InUse() const;
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  struct Pending;
  struct Tenancy;

  Result<VgpuId> Open(const SavedVgpu& saved);
  void Step(const engine::Event& event);
  Status TryStep(const engine::Event& event);
  void Carry();
  void Note(engine::Note note);
  void NoteSold(VgpuId id);
  void LookAt(Instant when);
  void LookNow();
  void Look();
  void SampleMemory();
  bool IsExecutor(const Tenancy& tenancy, pid_t pid);
  bool WantDoorbells(bool wanted);
  void Housekeeping();
  void OnConnection(Tenancy& tenancy);
  void OnHello(Tenancy& tenancy, std::uint64_t pending);
  void OnSocket(Tenancy& tenancy, ProcessId process);
  void Detach(Tenancy& tenancy, ProcessId process);
  void OwnerEnded(VgpuId id);
  void Drain(Tenancy& tenancy);
  void Erase(VgpuId id);
  void Save();
  Result<Tenancy*> Find(const std::string& name);
  /// Of a device that the engine knows by this name; empty: the first.
  DeviceSetup& SetupNamed(const std::string& name);
  VgpuReport ReportOf(Instant now, Tenancy& tenancy);

  boost::asio::io_context& loop_;
  const std::string run_dir_;
  std::vector<DeviceSetup> devices_;  // its size never changes: executors' hosts refer to what is in it
  const std::function<void(const SavedNode&)> save_;
  engine::NodeEngine engine_;
  engine::Actions actions_;
  std::vector<engine::GateSample> samples_;
  std::vector<engine::MemorySample> memory_samples_;
  std::vector<core::FrameDone> frames_done_;
  gate::Drained drained_;
  std::map<VgpuId, std::unique_ptr<Tenancy>> tenancies_;
  ProcessOwners owners_;
  EventLog events_;
  std::unique_ptr<PortalLine> portals_;  // null: nobody comes from other machines
  const Instant began_;
  std::vector<VgpuId> leaving_;  // ephemeral vGPUs to remove once the current event is over
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer housekeeping_timer_;
  Instant look_at_ = core::kNever;
  Instant looked_{};
  std::uint64_t looks_ = 0;
  std::uint64_t next_process_ = 1;
  platform::AcceptPause accept_pause_;
  bool restoring_ = false;
};

}  // namespace weir::daemon
