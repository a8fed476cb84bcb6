// SPDX-License-Identifier: Apache-2.0
// What is simulated: devices, tenants' programs, the runs to compare, and what must come of them. Plain data; read from
// TOML by scenario_file.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device_config.h"
#include "core/schedule/policy_table.h"
#include "engine/events.h"
#include "sim/cluster_world.h"
#include "sim/migration_world.h"

namespace weir::sim {

/// A stretch of a program's life in which its frames are alike: a scene, a level, a benchmark's test.
struct Scene {
  Duration length{};              // zero: to the end
  Duration cpu{};                 // of the program itself, per frame
  Duration gpu{};                 // on the device, per frame
  double jitter = 0;              // both are drawn from x·(1 ± jitter)
  double spike = 0;               // one frame in `spike_every` takes this much longer: 0.5 is half as long again
  int spike_every = 0;            // 0: never
  std::optional<Bytes> memory{};  // its buffers in this scene; none: the tenant's
};

/// What one recorded frame asked for.
struct Demand {
  Duration cpu{};      // of the program
  Duration gpu{};      // on the device
  Duration present{};  // of the present itself, the device's part left out
};

/// What a program's agent takes for the device time of a frame (shim/common/meter.h).
enum class Meter : std::uint8_t {
  kWork,  // what the device has finished since the frame before
  kSpan,  // from begin to end on the device, with other clients' turns in between; timestamps submit what was drawn
  kCall,  // from the call of present to its return, waits at the gate and delays left out
};

/// A tenant and its program, a frame loop or a loop of compute tasks. Commands are queued asynchronously, as a graphics
/// runtime does (VGRIS, section 2.2): the runtime sends batches of `batch` GPU time, and a present blocks while `queue`
/// batches are under way.
/// Frames that a program with vertical blanks may be ahead of the screen, as with the emulated GL driver.
inline constexpr int kFramesAheadOfTheBlank = 2;

struct Tenant {
  std::string name;
  engine::VgpuSettings settings;
  std::uint32_t device = 0;
  std::vector<Scene> scenes;
  bool repeat = true;                    // the scenes start again when the last is over
  Duration present = microseconds(300);  // the driver's present itself, on the CPU
  Duration batch = milliseconds(2);
  int queue = 3;
  // Instead of `batch` and `queue`: a frame is one batch, and a present returns when at most so many are under way, as
  // the emulated GL driver does it. 0: not so.
  int frames_ahead = 0;
  Meter meter = Meter::kWork;
  bool finishes = false;  // its present returns when the device has finished the frame, as a software renderer's does
  // Instead of scenes: of each of its loops these frames, over and over. As many as `processes`, none of them empty.
  std::vector<std::vector<Demand>> recorded{};
  Bytes memory{};    // its buffers; every frame reads them all
  Bytes command{};   // of these one command needs at once; elastic memory doesn't leave it less
  double dirty = 1;  // part of what is evicted that has to be copied out
  // A loop of tasks instead of frames, without a pace: each launch passes the gate, runs to its end on the device, and
  // is waited for.
  bool compute = false;
  bool cpu_only = false;  // a loop that draws nothing and computes nothing on the device
  Duration slice{};       // a task's launches have this GPU time each; zero: one launch
  Duration period{};  // between two tasks' beginnings; of those missed meanwhile one is made good; zero: back to back
  double own_limit_fps = 0;  // the program's own limiter; 0: none
  // Its present blocks until a vertical blank, so often a second: a frame is under way until it is shown, at most one
  // at a blank, and `frames_ahead` must be above 0. 0: a frame is shown when it is drawn.
  double vsync_hz = 0;
  int processes = 1;
  Duration start{};
  Duration end{};  // zero: stays
  // A customer's vGPU is made when its device sells it, from `start` on and after those before it in the file; its
  // program starts then, and at `end` both go. Others have theirs throughout.
  bool customer = false;
  core::Sale sale = core::Sale::kGuaranteed;  // or best effort
};

/// A device and its node. One engine each: a node decides for itself.
struct Device {
  std::string name = "gpu";
  core::DeviceConfig model{};
  Duration account{};  // between two readings of its driver's account (docs/accounting.md); zero: it has none
  Bytes memory{};      // 0: as much as is wanted
  double link_bytes_per_s = 12e9;
  double cpu_steal = 0;    // part of the CPU time that something else takes, 0 … 0.95
  std::uint32_t cpus = 1;  // of the host
  double copy_cpus = 0;    // of these, busy while something is copied
  // Of gVirt: a CPU copies the translation entries of a slot; a slot's objects are returned and bound again.
  Duration entries{}, returned{};
};

/// A change while a run goes on: of a tenant's settings, of how devices are sold, or of the policy.
struct Change {
  Duration at{};
  std::string tenant;  // empty: not of a tenant's
  std::string policy;
  core::PolicyParams params;
  engine::VgpuSettings settings;
  std::optional<core::OversellMode> oversell{};  // none: not of how devices are sold
  core::PolicyParams oversell_params{};
  [[nodiscard]] bool of_policy() const { return tenant.empty() && !oversell; }
};

/// What goes wrong, and when. Everything is mended by `until`.
enum class FaultKind : std::uint8_t { kDaemonCrash, kProcessKill, kDeviceStall, kCpuSteal };
struct Fault {
  FaultKind kind = FaultKind::kDaemonCrash;
  Duration at{};
  Duration until{};
  std::uint32_t device = 0;
  std::string tenant{};  // kProcessKill: one of its processes, restarted at `until`
  double amount = 0;     // kCpuSteal
};

/// Whose a device's memory is. Fixed: each vGPU has up to its limit, who comes first. Elastic: the engine's. Switched:
/// as gVirt has it (switched_memory.h), each has its limit.
enum class MemoryMode : std::uint8_t { kFixed, kElastic, kSwitched };

/// The same scenario under one policy.
struct Run {
  std::string label;
  std::string policy = "none";
  core::PolicyParams params{};
  core::OversellMode oversell = core::OversellMode::kOff;
  core::PolicyParams oversell_params{};
  MemoryMode memory = MemoryMode::kFixed;
  core::PolicyParams memory_params{};                      // of elastic memory
  std::optional<Bytes> memory_min{}, memory_max{};         // of each vGPU, in the place of its own
  std::optional<double> copy_cpus{};                       // in the place of the device's
  std::vector<std::string> only{};                         // these tenants; empty: all
  std::map<std::string, engine::VgpuSettings> settings{};  // instead of the tenant's own
  std::vector<Change> changes{};
  MigrationRun migration{};
  ClusterRun cluster{};
};

/// One tenant, or a time of it.
struct Part {
  std::string tenant{};
  double from_s = 0, to_s = 0;
};

/// A figure of one run, or its ratio to another run's, and the range it must lie in.
struct Expectation {
  std::string metric{};         // see metrics.h
  std::string run{}, tenant{};  // a name that ends with '*': the sum over all that begin so
  std::vector<Part> parts{};    // instead: the mean over these, of each one's ratio where it is a ratio
  double from_s = 0, to_s = 0;  // to 0: the end
  std::string per_run{};        // divided by the same figure of this run, if given
  std::string per_tenant{};     // or of this tenant
  double parameter = 0;         // of the metric: the interval in ms, a percentile
  std::optional<double> min{}, max{};
  std::string paper{};  // what the paper says, for the column
  std::string note{};
};

struct Scenario {
  std::string name, title, source, about;
  std::uint64_t seed = 1;
  Duration span = seconds(60);
  Duration warm_up{};  // not counted where an expectation names no time
  std::vector<Device> devices{Device{}};
  std::vector<Tenant> tenants;
  std::vector<Run> runs;
  std::vector<Fault> faults;
  std::vector<Expectation> expectations;
  std::optional<MigrationWorld> migration{};  // instead of devices and tenants
  std::optional<ClusterWorld> cluster{};      // likewise
};

}  // namespace weir::sim
