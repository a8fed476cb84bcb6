// SPDX-License-Identifier: Apache-2.0
// What is simulated: devices, tenants' programs, the runs to compare, and the results that are expected. Plain data;
// read from TOML by scenario_file.h.
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

/// A period in which a program's frames are alike: a scene, a level, one test of a benchmark.
struct Scene {
  Duration length{};              // zero: until the end
  Duration cpu{};                 // CPU time of the program, per frame
  Duration gpu{};                 // device time, per frame
  double jitter = 0;              // both times are drawn from x·(1 ± jitter)
  double spike = 0;               // on average one frame in `spike_every` is longer by this factor: 0.5 is 50 % longer
  int spike_every = 0;            // 0: never
  std::optional<Bytes> memory{};  // the buffers in this scene; none: the tenant's
};

/// The times of one recorded frame.
struct Demand {
  Duration cpu{};      // of the program
  Duration gpu{};      // on the device
  Duration present{};  // of the present call itself, without the device's part
};

/// How a program's agent measures the device time of a frame (shim/common/meter.h).
enum class Meter : std::uint8_t {
  kWork,  // the work that the device has finished since the previous frame
  kSpan,  // from begin to end on the device, including other clients' turns; its timestamps submit what was drawn
  kCall,  // from the call of present to its return, without waits at the gate and delays
};

/// How many frames a program with vertical blanks may be ahead of the screen, as with the emulated GL driver.
inline constexpr int kFramesAheadOfTheBlank = 2;

/// A tenant and its program: a loop of frames or of compute tasks. Commands are queued asynchronously, as by a graphics
/// runtime (VGRIS, section 2.2): the runtime sends batches of `batch` GPU time, and a present blocks while `queue`
/// batches are in flight.
struct Tenant {
  std::string name;
  engine::VgpuSettings settings;
  std::uint32_t device = 0;
  std::vector<Scene> scenes;
  bool repeat = true;                    // after the last scene the first begins again
  Duration present = microseconds(300);  // CPU time of the driver's present call
  Duration batch = milliseconds(2);
  int queue = 3;
  // Above 0, as with the emulated GL driver: a frame is one batch, and a present returns when at most this many frames
  // are in flight. 0: `batch` and `queue` apply.
  int frames_ahead = 0;
  Meter meter = Meter::kWork;
  bool finishes = false;  // its present returns when the device has finished the frame, as with a software renderer
  // Instead of scenes: recorded frames, one list for each of the `processes`, none of them empty. Each loop repeats its
  // list.
  std::vector<std::vector<Demand>> recorded{};
  Bytes memory{};    // its buffers; every frame reads all of them
  Bytes command{};   // the part of them that one command needs at once: the least that elastic memory leaves it
  double dirty = 1;  // fraction of the evicted memory that has to be copied out
  // The loop runs compute tasks instead of frames, without a pace. Each launch passes the gate and runs to its end on
  // the device; the program waits for it.
  bool compute = false;
  bool cpu_only = false;  // a loop without any work for the device
  Duration slice{};       // GPU time of each launch of a task; zero: the task is one launch
  Duration period{};      // between the starts of tasks; of several missed starts one is made good; zero: back to back
  double own_limit_fps = 0;  // the program's own limiter; 0: none
  // Vertical blanks per second. A frame is in flight until a blank shows it, one frame per blank, and a present blocks
  // accordingly; `frames_ahead` must be above 0. 0: a frame is shown as soon as the device has finished it.
  double vsync_hz = 0;
  int processes = 1;
  Duration start{};
  Duration end{};  // zero: stays
  // A customer has no vGPU at first. From `start` on it asks to buy one, after the customers that precede it in the
  // file. Its program starts when the device has sold it the vGPU, and both leave at `end`. Other tenants have a vGPU
  // during the whole run.
  bool customer = false;
  core::Sale sale = core::Sale::kGuaranteed;  // or best effort
};

/// A device and its node. Each node has an engine of its own.
struct Device {
  std::string name = "gpu";
  core::DeviceConfig model{};
  Duration account{};  // between two readings of its driver's account (docs/accounting.md); zero: it has none
  Bytes memory{};      // 0: unlimited
  double link_bytes_per_s = 12e9;
  double cpu_steal = 0;    // fraction of the CPU time that programs outside of the scenario take, 0 … 0.95
  std::uint32_t cpus = 1;  // of the host
  double copy_cpus = 0;    // CPUs that are busy while data is copied
  // For gVirt: the time to copy the translation entries of one slot, and to return and bind again the objects of one.
  Duration entries{}, returned{};
};

/// A change during a run: of a tenant's settings, of how devices are sold, or of the policy.
struct ScenarioChange {
  Duration at{};
  std::string tenant;  // empty: no tenant's settings change
  std::string policy;
  core::PolicyParams params;
  engine::VgpuSettings settings;
  std::optional<core::OversellMode> oversell{};  // none: devices are sold as before
  core::PolicyParams oversell_params{};
  [[nodiscard]] bool of_policy() const { return tenant.empty() && !oversell; }
};

/// Faults are injected at `at` and mended at `until`.
enum class FaultKind : std::uint8_t { kDaemonCrash, kProcessKill, kDeviceStall, kCpuSteal };
struct Fault {
  FaultKind kind = FaultKind::kDaemonCrash;
  Duration at{};
  Duration until{};
  std::uint32_t device = 0;
  std::string tenant{};  // kProcessKill: one of its processes, restarted at `until`
  double amount = 0;     // kCpuSteal: as Device::cpu_steal
};

/// How a device's memory is given to vGPUs. Fixed: up to each one's limit, first come first served. Elastic: the engine
/// decides. Switched: as in gVirt (switched_memory.h), each vGPU has its limit.
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
  std::optional<Bytes> memory_min{}, memory_max{};         // of every vGPU, instead of its own
  std::optional<double> copy_cpus{};                       // instead of the device's
  std::vector<std::string> only{};                         // the tenants that take part; empty: all
  std::map<std::string, engine::VgpuSettings> settings{};  // instead of the tenant's own
  std::vector<ScenarioChange> changes{};
  MigrationRun migration{};
  ClusterRun cluster{};
};

/// One tenant, or one tenant in an interval of the run.
struct Part {
  std::string tenant{};
  double from_s = 0, to_s = 0;
};

/// A figure of one run, or its ratio to another run's, and the range it must lie in.
struct Expectation {
  std::string metric{};         // see metrics.h
  std::string run{}, tenant{};  // a tenant "name*": the sum over all tenants whose names begin so
  std::vector<Part> parts{};    // instead of `tenant`: the mean over these parts, of ratios where it is a ratio
  double from_s = 0, to_s = 0;  // to_s 0: the end
  std::string per_run{};        // if given, the figure is divided by the same figure of this run
  std::string per_tenant{};     // if given, the figure is divided by the same figure of this tenant
  double parameter = 0;         // of the metric: the interval in ms, a percentile
  std::optional<double> min{}, max{};
  std::string paper{};  // the paper's value, for the table of results
  std::string note{};
};

struct Scenario {
  std::string name, title, source, about;
  std::uint64_t seed = 1;
  Duration span = seconds(60);
  Duration warm_up{};  // left out where an expectation names no interval
  std::vector<Device> devices{Device{}};
  std::vector<Tenant> tenants;
  std::vector<Run> runs;
  std::vector<Fault> faults;
  std::vector<Expectation> expectations;
  std::optional<MigrationWorld> migration{};  // instead of devices and tenants
  std::optional<ClusterWorld> cluster{};      // instead of devices and tenants
};

}  // namespace weir::sim
