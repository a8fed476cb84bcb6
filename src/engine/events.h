// SPDX-License-Identifier: Apache-2.0
// Events of a node, and the actions that the engine returns for them. Plain values, so that a run can be recorded,
// replayed and simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "core/charge/use_reconciler.h"
#include "core/memory/balloon.h"
#include "core/oversubscribe/oversell.h"
#include "core/partition/plan.h"
#include "core/schedule/policy_table.h"
#include "core/stats/frame_stats.h"
#include "engine/decisions.h"
#include "engine/vgpu_settings.h"
#include "proto/attach_messages.h"
#include "proto/executor_statistics.h"
#include "proto/gate_layout.h"

namespace weir::engine {

struct DeviceSpec {
  std::string name;
  std::string kind;       // "software", "gpu" or "emulated"
  std::vector<int> cpus;  // of a software device; empty for other kinds
  std::string model{};    // the vendor's name of the model; empty: unknown
  std::string uuid{};     // empty: none or unknown
  std::string pci{};      // PCI address, as 0000:01:00.0; empty: none or unknown
  Bytes memory{};         // 0: unknown before its OpenCL driver is opened
};

// -- Events ----------------------------------------------------------------------------------------------------------

struct CreateVgpu {
  std::string name;
  std::string device;  // empty: the first device
  VgpuSettings settings;
  VgpuId id;  // unset: the engine assigns one; set when a saved node is restored
  /// kBestEffort: without a promise. Otherwise the engine chooses the kind of sale, unless `restored` is set.
  core::Sale sale = core::Sale::kGuaranteed;
  bool restored = false;  // the vGPU existed before: it is not refused because of what is sold or promised
};
struct SetVgpu {
  VgpuId id;
  VgpuSettings settings;
};
struct RemoveVgpu {
  VgpuId id;
};
struct PauseVgpu {
  VgpuId id;
  bool paused = true;
};
struct SetPolicy {
  std::string device;
  std::string policy;
  core::PolicyParams params;
  const core::PolicyEntry* entry{};  // of a policy that is not in the table; null: `policy` names one of the table
};
/// Changes how a device is sold; existing vGPUs remain.
struct SetOversell {
  std::string device;
  core::OversellMode mode = core::OversellMode::kOff;
  core::PolicyParams params;
};
/// Makes the device's memory elastic, or not elastic if `size` is 0. vGPUs start with their minima.
struct SetMemory {
  std::string device;
  Bytes size{};
  core::PolicyParams params;
  std::uint32_t cpus = 1;  // of the host
};
/// All memory of the device that is in use, as the device reports it (docs/memory.md, "What others hold"). To be sent
/// about twice a second.
struct SeeDeviceMemory {
  std::string device;
  Bytes used{};
};
/// The driver's account of a device (docs/accounting.md). The gates must have been sampled just before this event.
struct SeeDeviceUse {
  std::string device;
  core::UseReading reading;
};
struct ProcessAttached {
  VgpuId vgpu;
  ProcessId process;
  bool draws = true;  // it presents frames; otherwise its records are about tasks
};
/// A process has stopped presenting frames, or has begun to.
struct ProcessDraws {
  VgpuId vgpu;
  ProcessId process;
  bool draws = true;
};
/// A process has ended. `unreported`: how long it had work in flight since its last charge. At most kStuckAfter of that
/// time is charged. What the process had reserved stays charged, too.
struct ProcessDetached {
  VgpuId vgpu;
  ProcessId process;
  Duration unreported{};
};

/// State of a gate, copied once from shared memory and not yet checked. One entry per vGPU with processes that does not
/// rest (Rest), in any order.
struct GateSample {
  VgpuId vgpu;
  std::int64_t allowance_ns = 0;
  std::uint32_t waiting = 0;
  std::uint32_t in_flight = 0;
  std::int64_t reserved_ns = 0;  // GPU time reserved for the work in flight
  /// The GPU time spent since the last sample belongs to work that was in flight at that sample and still is: no work
  /// has begun or ended.
  bool runs_on = false;
  std::uint64_t forged = 0;  // allowances that a tenant has written into its region, and that were corrected
};
/// The combined statistics of a vGPU's executors (usually one), limited to plausible values.
struct MemorySample {
  VgpuId vgpu;
  bool done = true;  // the executors have carried out the last published memory order
  proto::ExecutorStatistics stats{};
};
struct GatesSampled {
  std::span<const GateSample> samples;
  std::span<const MemorySample> memory{};  // one per vGPU with an executor, on devices with elastic memory
};
struct FramesDone {
  VgpuId vgpu;
  std::span<const core::FrameDone> frames;
  std::uint64_t lost = 0;  // records that did not fit into the ring
  std::uint64_t bad = 0;   // malformed records
};

using Event =
    std::variant<CreateVgpu, SetVgpu, RemoveVgpu, PauseVgpu, SetPolicy, SetOversell, SetMemory, SeeDeviceMemory,
                 SeeDeviceUse, ProcessAttached, ProcessDraws, ProcessDetached, GatesSampled, FramesDone>;

// -- Actions ---------------------------------------------------------------------------------------------------------

/// Adds to the vGPU's allowance (may be negative), then wakes waiting agents if `wake`.
struct AllowanceGrant {
  VgpuId vgpu;
  std::int64_t delta_ns = 0;
  bool wake = false;
};
/// Device memory of a vGPU, in slots. If memory is not elastic, `limit` bounds what the vGPU allocates; 0: no limit.
struct MemoryGrant {
  bool elastic = false;
  std::uint32_t limit = 0;  // slots that the vGPU holds
  std::uint32_t here = 0;   // of these, the assigned ones
  std::uint32_t max = 0;    // the most that one of its commands can use
  friend bool operator==(const MemoryGrant&, const MemoryGrant&) = default;
};
/// Writes the daemon's fields of the vGPU's region, and wakes waiting agents so that they read them.
struct Publish {
  VgpuId vgpu;
  proto::GateMode mode = proto::GateMode::kOpen;
  Duration frame_interval{};
  proto::FrameSync sync = proto::FrameSync::kAuto;
  proto::FrameStart start = proto::FrameStart::kEarly;
  Share cap;
  MemoryGrant memory;
};
/// Sends a message to all agents of the vGPU.
struct Tell {
  VgpuId vgpu;
  proto::CommandKind command = proto::CommandKind::kPause;
  std::uint64_t argument = 0;
};

/// Drain request: asks the remote programs of a vGPU to move to another node (docs/migration.md), because several vGPUs
/// of its device are overloaded; or, if not `wanted`, cancels the request.
struct DrainChange {
  VgpuId vgpu;
  bool wanted = false;
};

/// Ends the vGPU's executors at once, because they have not carried out memory orders.
struct EndExecutors {
  VgpuId vgpu;
};

/// Whether the agents of the vGPU ring the doorbell at the end of their work.
struct RingAtEnd {
  VgpuId vgpu;
  bool wanted = false;
};

/// Whether the vGPU rests: its allowance does not change, and its gate need not be sampled. Its agents are asked to
/// ring the doorbell at entry. The gate is sampled once after that request, and once after each ring. The gate of a
/// vGPU that does not rest is sampled at each poll. A new vGPU does not rest.
struct Rest {
  VgpuId vgpu;
  bool resting = false;
};

struct Actions {
  std::vector<Publish> publish;  // first: a mode must be published before the wake that follows it
  std::vector<Tell> tell;
  std::vector<AllowanceGrant> grant;
  std::vector<RingAtEnd> ring_at_end;
  std::vector<Rest> rest;
  std::vector<DrainChange> leave;  // to be applied in this order
  std::vector<EndExecutors> end;
  std::vector<Decision> decisions;  // to be shown to users
  VgpuId created;
  Instant look_again = core::kNever;  // latest time of the next poll of the gates
  /// No policy needs a decision before something happens at a gate, so agents must be asked to ring the doorbell. Even
  /// then `look_again` may be set: sales, memory and promises are checked at intervals.
  bool asleep = true;
  void Clear() {
    publish.clear();
    tell.clear();
    grant.clear();
    ring_at_end.clear();
    rest.clear();
    leave.clear();
    end.clear();
    decisions.clear();
    created = {};
    look_again = core::kNever;
    asleep = true;
  }
};

}  // namespace weir::engine
