// SPDX-License-Identifier: Apache-2.0
// The demo's programs and results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace weir::cli {

/// A program of the demo and the promise of its vGPU.
struct Workload {
  std::string name;  // of the vGPU
  std::int64_t weight = 100;
  double fps = 0;  // 0: no promised rate, so that no frame is late
  std::vector<std::string> command;
  std::string package;   // Debian package of the program
  std::string device{};  // empty: the node's first device
};

/// Three programs that would each use more of the device than their weight gives them.
std::vector<Workload> DefaultWorkloads();

/// Three such programs for each of these emulated GPUs.
std::vector<Workload> EmulatedWorkloads(const std::vector<std::string>& devices);

struct DemoOptions {
  Duration phase = seconds(15);
  std::vector<std::string> policies{"none", "proportional-share", "sla-aware", "hybrid"};
  std::string report = "demo-report.html";
  std::string device;            // in the syntax of `weir serve --device`; empty: the embedded device
  std::vector<int> device_cpus;  // empty: the daemon's default
  std::string dashboard;         // where a dashboard listens, as HOST:PORT; empty: there is none
  bool own_display = false;      // start an Xvfb even if there is a display
  bool keep = false;             // keep the temporary folder with the logs
  bool json = false;
};

/// A frame as the daemon recorded it. Its latency is the time since the previous present returned (VGRIS, section 3.2).
struct Frame {
  std::int64_t end_ns = 0;
  std::int64_t latency_ns = 0;
  std::int64_t gpu_ns = 0;
};

/// The increase of a vGPU's totals during a phase.
struct Tally {
  std::int64_t frames = 0, late_frames = 0, gpu_ns = 0, wait_ns = 0;
};

struct ProgramPhase {
  std::vector<Frame> frames;  // those that overlap the phase; those that end in it count
  Tally tally;
  std::int64_t lost = 0;  // frames that the daemon dropped before they were read
};

struct Phase {
  std::string policy;
  std::int64_t begin_ns = 0, end_ns = 0;  // after the warm-up
  std::vector<ProgramPhase> programs;     // in the order of the workloads
};

struct DemoResult {
  std::vector<Workload> workloads;
  std::vector<Phase> phases;
  std::vector<std::pair<std::string, std::string>> facts;  // the machine and the versions, for the report's head
  bool emulated = false;                                   // devices are emulated, so that every figure is labelled

  /// The label after a figure's name: " (emulated)", or empty.
  [[nodiscard]] std::string_view Mark() const { return emulated ? " (emulated)" : ""; }
  /// The programs of each device, as indexes into `workloads`.
  [[nodiscard]] std::vector<std::vector<std::size_t>> ByDevice() const;
};

/// One program's figures under one policy.
struct Outcome {
  double promise = 0;  // its fraction of the sum of weights on its device
  double got = 0;      // its fraction of the GPU time used on its device
  double use = 0;      // its fraction of the device's capacity
  double fps = 0;
  double mean_ms = 0, p99_ms = 0, max_ms = 0;
  double wait = 0;  // its fraction of wall time at the gate
  std::int64_t frames = 0, late_frames = 0;
};
/// What a policy tries to keep. A report marks only misses of this goal.
enum class Goal : std::uint8_t { kNothing, kShares, kRates };
Goal GoalOf(std::string_view policy);
/// Whether its rate is at least 98 % of the promised one.
bool RateIsKept(const Workload& workload, const Outcome& outcome);

Outcome Judge(const DemoResult& result, std::size_t phase, std::size_t program);

/// The percentile by nearest rank: the smallest value that is not exceeded by at least the fraction `p` (0 … 1] of all
/// values. 0 without values.
double Percentile(std::vector<double> values, double p);

/// The latencies, in milliseconds, of a program's frames that ended in [begin_ns, end_ns).
std::vector<double> LatenciesMs(const std::vector<Frame>& frames, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace weir::cli
