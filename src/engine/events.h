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
#include "core/oversubscribe/oversell.h"
#include "core/schedule/policy_table.h"
#include "core/stats/frame_stats.h"
#include "proto/attach_messages.h"
#include "proto/gate_layout.h"

namespace weir::engine {

struct DeviceSpec {
  std::string name;
  std::string kind;       // "software" or "gpu"
  std::vector<int> cpus;  // of a software device; empty for a real one
};

/// What a vGPU is promised and held to. Ranges are checked by the engine.
struct VgpuSettings {
  std::uint32_t weight = 100;
  Share cap = Share::Whole();
  double fps = 0;      // promised rate; 0: none
  Duration latency{};  // promised bound of a frame's latency; 0: none
  Bytes memory_min{};
  Bytes memory_max{};  // 0: no limit
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
struct ProcessAttached {
  VgpuId vgpu;
  ProcessId process;
  bool draws = true;  // presents frames; else its records are of computing
};
/// `reserved`: what the process had reserved and never settled. Copied from its region, so not to be trusted.
struct ProcessDetached {
  VgpuId vgpu;
  ProcessId process;
  Duration reserved{};
};

/// What a gate showed: copied once from shared memory, not checked yet. One entry per vGPU with processes, any order.
struct GateSample {
  VgpuId vgpu;
  std::int64_t allowance_ns = 0;
  std::uint32_t waiting = 0;
  std::uint32_t in_flight = 0;
};
struct GatesSampled {
  std::span<const GateSample> samples;
};
struct FramesDone {
  VgpuId vgpu;
  std::span<const core::FrameDone> frames;
  std::uint64_t lost = 0;  // records that didn't fit the ring
  std::uint64_t bad = 0;   // records that made no sense
};

using Event = std::variant<CreateVgpu, SetVgpu, RemoveVgpu, PauseVgpu, SetPolicy, SetOversell, ProcessAttached,
                           ProcessDetached, GatesSampled, FramesDone>;

// -- Actions ---------------------------------------------------------------------------------------------------------

/// Add to the vGPU's allowance (may be negative), then wake who waits if `wake`.
struct Grant {
  VgpuId vgpu;
  std::int64_t delta_ns = 0;
  bool wake = false;
};
/// Write the daemon's fields of the vGPU's region; waiting agents are woken so that they see them.
struct Publish {
  VgpuId vgpu;
  proto::GateMode mode = proto::GateMode::kOpen;
  Duration frame_interval{};
  proto::FrameSync sync = proto::FrameSync::kAuto;
  Share cap;
  std::uint32_t memory_limit_slots = 0;
};
/// Send a message to all agents of the vGPU.
struct Tell {
  VgpuId vgpu;
  proto::CommandKind command = proto::CommandKind::kPause;
  std::uint64_t argument = 0;
};

/// Something was decided, for people to read: what, about whom, and why.
struct Note {
  std::string device;
  std::string kind;  // a word: sold, overload, regained, stolen …
  std::string vgpu;  // empty: the device
  std::string text;
};

struct Actions {
  std::vector<Publish> publish;  // first: a mode must be there before the wake that follows it
  std::vector<Tell> tell;
  std::vector<Grant> grant;
  std::vector<Note> notes;
  VgpuId created;
  Instant look_again = core::kNever;  // sample the gates at this time at the latest
  void Clear() {
    publish.clear();
    tell.clear();
    grant.clear();
    notes.clear();
    created = {};
    look_again = core::kNever;
  }
};

}  // namespace weir::engine
