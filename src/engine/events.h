// SPDX-License-Identifier: Apache-2.0
// What happens to a node, and what the engine wants done about it. Plain values, so that a run can be recorded,
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
#include "proto/attach_messages.h"
#include "proto/gate_layout.h"

namespace weir::engine {

struct DeviceSpec {
  std::string name;
  std::string kind;       // "software", "gpu" or "emulated"
  std::vector<int> cpus;  // of a software device; empty for others
  std::string model{};    // what its maker calls it; empty: unknown
  std::string uuid{};     // empty: it has none, or it is unknown
  std::string pci{};      // its PCI address, as 0000:01:00.0; the same
};

/// What a vGPU is promised and held to. Ranges are checked by the engine.
struct VgpuSettings {
  std::uint32_t weight = 100;
  Share cap = Share::Whole();
  double fps = 0;          // promised frames/s; 0: none
  double tasks_per_s = 0;  // promised tasks/s of what computes; 0: none. Not both
  Duration latency{};      // promised bound of a frame's latency; 0: none
  Bytes memory_min{};
  Bytes memory_max{};  // 0: no limit
  /// Of launches whose memory does not fit; as its next executor is started. kPaper is the simulator's, and refused.
  core::PartitionMode partition = core::PartitionMode::kAuto;
  /// Frames or tasks a second; 0: none is promised.
  [[nodiscard]] double promised_rate() const { return fps > 0 ? fps : tasks_per_s; }
  friend bool operator==(const VgpuSettings&, const VgpuSettings&) = default;
};

// -- Events ----------------------------------------------------------------------------------------------------------

struct CreateVgpu {
  std::string name;
  std::string device;  // empty: the first one
  VgpuSettings settings;
  VgpuId id;  // none: the engine picks; given when a saved node is restored
  /// kBestEffort: without a promise, of what is left. Else the engine says which it is, unless it is `restored`.
  core::Sale sale = core::Sale::kGuaranteed;
  bool restored = false;
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
};
/// How the device is sold; the vGPUs that there are stay.
struct SetOversell {
  std::string device;
  core::OversellMode mode = core::OversellMode::kOff;
  core::PolicyParams params;
};
/// The device's memory becomes elastic, or (`size` 0) is not. What vGPUs hold begins at their minima.
struct SetMemory {
  std::string device;
  Bytes size{};
  core::PolicyParams params;
  std::uint32_t cpus = 1;  // of the host
};
/// What the device itself says is in use of its memory, by whoever (docs/memory.md, "What others hold"). To be told
/// again and again, twice a second.
struct SeeDeviceMemory {
  std::string device;
  Bytes used{};
};
/// What the driver says of the use of the device (docs/accounting.md). The gates must have been sampled just before.
struct SeeDeviceUse {
  std::string device;
  core::UseReading reading;
};
struct ProcessAttached {
  VgpuId vgpu;
  ProcessId process;
  bool draws = true;  // presents frames; else its records are of computing
};
/// `unreported`: how long the process had work in flight since it was last charged for any. At most kStuckAfter of it
/// is charged. What the process had reserved stays charged, too.
struct ProcessDetached {
  VgpuId vgpu;
  ProcessId process;
  Duration unreported{};
};

/// What a gate showed: copied once from shared memory, not checked yet. One entry per vGPU with processes, any order.
struct GateSample {
  VgpuId vgpu;
  std::int64_t allowance_ns = 0;
  std::uint32_t waiting = 0;
  std::uint32_t in_flight = 0;
  /// What was spent since the last sample is for work that was in flight then and still is: nothing began or ended.
  bool runs_on = false;
};
/// What an executor said of its memory, within what can be believed. Totals never fall.
struct MemorySample {
  VgpuId vgpu;
  bool done = true;  // it has carried out what was last published
  std::uint32_t resident = 0;
  Bytes need{}, must{}, in_use{}, made{}, copied_out{}, copied_in{};
  Duration switch_copy{}, steal{}, elsewhere{};
  std::uint64_t evictions = 0;
  std::uint32_t threads = 0;
  // Launches in parts (docs/partition.md, "On a node")
  std::uint64_t launches_in_parts = 0, parts = 0, launches_not_cut = 0;
  Bytes parts_in{}, parts_out{};
  Duration parts_decide{}, parts_compile{};
  Bytes resident_bytes{};  // zero: the executor does not say; then it is taken for `resident` slots
};
struct GatesSampled {
  std::span<const GateSample> samples;
  std::span<const MemorySample> memory{};  // one per vGPU whose executor is there, where memory is elastic
};
struct FramesDone {
  VgpuId vgpu;
  std::span<const core::FrameDone> frames;
  std::uint64_t lost = 0;  // records that didn't fit the ring
  std::uint64_t bad = 0;   // records that made no sense
};

using Event = std::variant<CreateVgpu, SetVgpu, RemoveVgpu, PauseVgpu, SetPolicy, SetOversell, SetMemory,
                           SeeDeviceMemory, SeeDeviceUse, ProcessAttached, ProcessDetached, GatesSampled, FramesDone>;

// -- Actions ---------------------------------------------------------------------------------------------------------

/// Add to the vGPU's allowance (may be negative), then wake who waits if `wake`.
struct Grant {
  VgpuId vgpu;
  std::int64_t delta_ns = 0;
  bool wake = false;
};
/// What a vGPU has of the device's memory, in slots. Not elastic: `limit` is of what it makes, 0 for none.
struct MemoryGrant {
  bool elastic = false;
  std::uint32_t limit = 0;  // held
  std::uint32_t here = 0;   // of these, its own now
  std::uint32_t max = 0;    // what one of its commands can use
  friend bool operator==(const MemoryGrant&, const MemoryGrant&) = default;
};
/// Write the daemon's fields of the vGPU's region; waiting agents are woken so that they see them.
struct Publish {
  VgpuId vgpu;
  proto::GateMode mode = proto::GateMode::kOpen;
  Duration frame_interval{};
  proto::FrameSync sync = proto::FrameSync::kAuto;
  Share cap;
  MemoryGrant memory;
};
/// Send a message to all agents of the vGPU.
struct Tell {
  VgpuId vgpu;
  proto::CommandKind command = proto::CommandKind::kPause;
  std::uint64_t argument = 0;
};

/// The programs of a vGPU that came from other machines are to be asked to go elsewhere (docs/migration.md), or, not
/// `wanted`, need not any more.
struct AskToLeave {
  VgpuId vgpu;
  bool wanted = false;
  std::string why{};  // for people
};

/// Something was decided, for people to read: what, about whom, and why.
struct Note {
  std::string device;
  std::string kind;  // a word: sold, overload, regained, stolen …
  std::string vgpu;  // empty: the device
  std::string text;
};

/// Ends the vGPU's executors at once: they have not carried out orders for their memory.
struct EndExecutors {
  VgpuId vgpu;
};

struct Actions {
  std::vector<Publish> publish;  // first: a mode must be there before the wake that follows it
  std::vector<Tell> tell;
  std::vector<Grant> grant;
  std::vector<AskToLeave> leave;  // in this order
  std::vector<EndExecutors> end;
  std::vector<Note> notes;
  VgpuId created;
  Instant look_again = core::kNever;  // sample the gates at this time at the latest
  void Clear() {
    publish.clear();
    tell.clear();
    grant.clear();
    leave.clear();
    end.clear();
    notes.clear();
    created = {};
    look_again = core::kNever;
  }
};

}  // namespace weir::engine
