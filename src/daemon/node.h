// SPDX-License-Identifier: Apache-2.0
// The node at run time: one engine, the gates, and the loop that feeds events to the engine and applies its actions.
// One thread.
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
#include "daemon/not_restored.h"
#include "daemon/portal_line.h"
#include "daemon/process_places.h"
#include "daemon/saved_node.h"
#include "engine/node_engine.h"
#include "gate/host.h"
#include "platform/accept_pause.h"

namespace weir::daemon {

/// The interval for heartbeats, frame records and marks of use, and the longest time between two polls.
inline constexpr Duration kHousekeeping = milliseconds(50);
/// A connection must send Hello within this time.
inline constexpr Duration kHelloWithin = seconds(2);
/// The minimum interval between two events that report that a vGPU has no place for another process.
inline constexpr Duration kFullSaidEvery = seconds(60);
/// The minimum interval between two events that report that a vGPU's programs had no memory.
inline constexpr Duration kRefusedSaidEvery = seconds(10);
/// Upper bound of the connections of one user that have not sent Hello yet, for each vGPU.
inline constexpr std::size_t kPendingPerUidMax = 64;

/// A device of the node.
struct DeviceSetup {
  engine::DeviceSpec spec;
  ExecutorSetup executors;
  /// NAME=VALUE for programs that use the device without an executor; `weir run` sets them.
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

/// What Node::Remove has removed: a vGPU, or one that could not be restored and was only saved.
enum class Removed { kVgpu, kNotRestored };

/// A vGPU as the control API shows it: the engine's view and the gate's.
struct VgpuReport {
  engine::VgpuStatus status;
  engine::PromiseStatus promise;
  std::string attach;
  std::string opencl;                    // the socket for OpenCL clients
  std::vector<std::string> environment;  // for the vGPU's programs, from its device
  uid_t owner_uid = 0;
  bool ephemeral = false;
  std::uint64_t fail_opens = 0;
  std::uint64_t waiting_threads = 0;  // at the gate
  std::uint64_t executor_starts = 0;
  std::uint64_t executor_failures = 0;
  std::uint64_t memory_refused = 0;  // allocations and commands that had no memory
  gate::DeviceUse use;               // of the vGPU's executors
  Bytes program_memory{};            // that its programs hold, as they report it
  std::vector<gate::ProcessInfo> processes;
};

/// The figures of a node at one moment that the engine has; those of the gates are left out.
struct NodeSamples {
  std::uint64_t layout = 0;  // grows whenever a vGPU, a setting, a policy or the set of attached processes changes
  std::vector<engine::DeviceStatus> devices;
  std::vector<engine::VgpuStatus> vgpus;  // by id
};

class Node {
 public:
  /// `devices` holds at least one device, and their names are unique. `save` is called with the new state after every
  /// change that must survive a restart. `users`: of the executors.
  Node(boost::asio::io_context& loop, std::string run_dir, std::vector<DeviceSetup> devices,
       std::function<void(const SavedNode&)> save, OwnUsers users = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Restores saved vGPUs, policies and sales with their ids and sockets. Returns what can't be restored. It stays
  /// saved until it is set, made or removed.
  std::vector<NotRestored::Item> Restore(const SavedNode& saved);
  [[nodiscard]] std::vector<NotRestored::Item> not_restored() const { return not_restored_.Items(); }

  /// Tells portals about drain requests on RUN_DIR/portals.sock.
  Status ListenForPortals();

  Result<VgpuReport> Create(const CreateRequest& request);
  Result<VgpuReport> Set(const std::string& name, const engine::VgpuSettings& settings);
  Result<VgpuReport> Pause(const std::string& name, bool paused);
  Result<Removed> Remove(const std::string& name, bool force);
  Status SetPolicy(const std::string& device, const std::string& policy, const core::PolicyParams& params);
  /// Running executors keep their settings. `copy_bytes_per_s` 0: unlimited.
  Status SetMemory(const std::string& device, Bytes size, const core::PolicyParams& params, double copy_bytes_per_s);
  /// Reports how much of the device's memory is in use, whatever process holds it.
  Status SeeDeviceMemory(const std::string& device, Bytes used);
  /// Reports the driver's account of a device (docs/accounting.md).
  Status SeeDeviceUse(const DeviceUse& use);
  /// When the account of a device was last reported; {}: never.
  [[nodiscard]] Instant AccountSeen(const std::string& device) const;
  Status SetOversell(const std::string& device, core::OversellMode mode, const core::PolicyParams& params);
  /// Drops the settings of a device that could not be restored, but not its vGPUs. Returns what they were, as in
  /// NotRestored::Item::what. kNotFound: there are none.
  Result<std::vector<std::string>> ForgetDevice(const std::string& device);

  /// The figures that change continuously. Cheaper than the reports of all vGPUs.
  [[nodiscard]] NodeSamples Samples() const;
  Result<VgpuReport> Vgpu(const std::string& name);
  std::vector<VgpuReport> Vgpus();
  std::vector<engine::DeviceStatus> Devices();
  [[nodiscard]] Result<engine::MemoryMap> Memory(const std::string& device) const { return engine_.Memory(device); }
  [[nodiscard]] double copy_bytes_per_s(const std::string& device);
  Result<FrameLog::Slice> Frames(const std::string& name, std::uint64_t after, std::uint64_t limit);
  [[nodiscard]] const EventLog& events() const { return events_; }
  /// When this node's event numbers began. A reader distinguishes them by it from the numbers of an earlier daemon.
  [[nodiscard]] Instant began() const { return began_; }

  [[nodiscard]] const ExecutorUsers& executor_users() const { return users_; }
  [[nodiscard]] std::size_t processes() const;
  /// True while a program is attached or the owner of an ephemeral vGPU lives.
  [[nodiscard]] bool InUse() const;
  /// The number of polls so far.
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  struct Pending;
  struct Tenancy;

  Result<VgpuId> Open(const SavedVgpu& saved);
  void RestoreVgpu(const SavedVgpu& vgpu);
  // Step and TryStep pass an event to the engine and apply its actions (Carry). Step ignores it if the engine
  // refuses the event.
  void Step(const engine::Event& event);
  Status TryStep(const engine::Event& event);
  void Carry();
  void Note(engine::Note note);
  void NoteSold(VgpuId id);
  void LookAt(Instant when);
  void LookNow();
  void Look();
  void SampleMemory();
  void Sample(Instant now, const Tenancy& tenancy);
  void SampleNext(Tenancy& tenancy);
  void NoteAttached(Tenancy& tenancy);
  void SetResting(Tenancy& tenancy, bool resting);
  bool IsExecutor(const Tenancy& tenancy, pid_t pid);
  gate::Places PlacesOf(const Tenancy& tenancy, pid_t asks);
  void NoteFull(Tenancy& tenancy, std::string why);
  static void PublishExecutorsMemory(Tenancy& tenancy);
  static void CountMemoryRefused(Tenancy& tenancy, gate::ProcessGate& process);
  static void EndIfWithoutGate(Instant now, Tenancy& tenancy);
  void NoteMemoryRefused(Instant now, Tenancy& tenancy);
  bool WantEntryBells(bool wanted);
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
  /// The setup of the named device, which must exist; an empty name means the first device.
  DeviceSetup& SetupNamed(const std::string& name);
  VgpuReport ReportOf(Instant now, Tenancy& tenancy);
  VgpuReport ReportOf(Tenancy& tenancy, engine::VgpuStatus status);

  boost::asio::io_context& loop_;
  const std::string run_dir_;
  std::vector<DeviceSetup> devices_;  // never resized: executor hosts hold references to its elements
  ExecutorUsers users_;
  const std::function<void(const SavedNode&)> save_;
  engine::NodeEngine engine_;
  engine::Actions actions_;
  std::vector<engine::GateSample> samples_;
  std::vector<engine::MemorySample> memory_samples_;
  std::vector<core::FrameDone> frames_done_;
  gate::Drained drained_;
  std::map<VgpuId, std::unique_ptr<Tenancy>> tenancies_;
  // By id: those with processes, with connections that have not sent Hello, or with an executor that was attached.
  std::vector<Tenancy*> attached_;
  std::vector<Tenancy*> sampled_;  // by id: those of attached_ that the next poll samples
  bool bells_asked_ = false;       // since the last poll: a doorbell was requested for a vGPU that rests
  ProcessOwners owners_;
  std::map<std::string, Instant> accounts_seen_;  // by device
  EventLog events_;
  std::unique_ptr<PortalLine> portals_;  // null: the node has no portals
  const Instant began_;
  std::vector<VgpuId> leaving_;  // ephemeral vGPUs to remove after the current event
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer housekeeping_timer_;
  Instant look_at_ = core::kNever;
  Instant looked_{};
  std::uint64_t looks_ = 0;
  std::uint64_t layout_ = 1;
  std::uint64_t next_process_ = 1;
  const ProcessPlaces places_;
  platform::AcceptPause accept_pause_;
  bool restoring_ = false;
  NotRestored not_restored_;
};

}  // namespace weir::daemon
