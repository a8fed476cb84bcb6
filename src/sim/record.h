// SPDX-License-Identifier: Apache-2.0
// The results of a run, as the model itself has recorded them; the engine's totals are kept separately.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "core/oversubscribe/economics.h"
#include "core/oversubscribe/oversell.h"
#include "sim/cluster_world.h"
#include "sim/migration_world.h"

namespace weir::sim {

/// A finished frame. Times in ns since the run began.
struct FrameRecord {
  std::int64_t end_ns = 0;
  std::int64_t latency_ns = 0;    // between the returns of two presents (VGRIS, section 3.2)
  std::int64_t gpu_ns = 0;        // device time
  std::int64_t pace_ns = 0;       // delay by the pacer
  std::int64_t wait_ns = 0;       // at the gate
  std::int64_t took_ns = 0;       // from passing the gate to the return of the present
  std::int64_t predicted_ns = 0;  // the pacer's prediction of took_ns; 0: none
  bool paced = false;             // a pace was in force
  std::int64_t input_ns = 0;      // until end_ns from the frame's start, after the delay of a late frame start
};

/// The number of slots that a tenant has from `at_ns` on.
struct MemoryHeld {
  std::int64_t at_ns = 0;
  std::uint32_t slots = 0;
};

/// A frame's wait for its memory.
struct MemoryWait {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
};

/// What a vGPU is sold as from `at_ns` on.
struct SaleTerms {
  std::int64_t at_ns = 0;
  core::Sale sale = core::Sale::kGuaranteed;
  double ceiling = 1;
  double fps = 0;  // promised, by a rate or a latency; 0: it was promised its ceiling
};

/// How a device is sold from `at_ns` on.
struct SellingMode {
  std::int64_t at_ns = 0;
  std::uint32_t device = 0;
  core::OversellMode mode = core::OversellMode::kOff;
  double ratio = 0;  // of kStatic
};

/// A refused request for a ceiling, or for another way of selling.
struct SaleRefused {
  std::int64_t at_ns = 0;
  std::uint32_t device = 0;
  std::string tenant{};  // empty: `mode` was refused
  double ceiling = 0;    // without a tenant: the ratio of `mode`
  core::OversellMode mode = core::OversellMode::kOff;
};

struct TenantRecord {
  std::string name;
  std::vector<FrameRecord> frames;  // empty when they are not kept
  // By whole second of the run.
  std::vector<std::int64_t> gpu_ns_by_s;
  std::vector<std::int64_t> wanting_ns_by_s;  // a loop waited at the gate, queued, or had work on the device
  std::vector<std::uint32_t> frames_by_s;
  std::vector<std::uint32_t> copied_slots_by_s;
  std::vector<MemoryHeld> memory;  // slots on the device, in order; before the first entry none
  // Where memory is elastic
  std::vector<MemoryHeld> held;          // slots held by the last order, in order
  std::vector<MemoryHeld> here;          // assigned slots, in order
  std::vector<MemoryWait> memory_waits;  // those of a second or longer, in order
  double copied_out_slots = 0;
  std::uint64_t frame_count = 0;
  std::int64_t gpu_ns = 0;
  // What was sold
  std::int64_t sold_ns = 0;      // when its vGPU was sold; -1: never
  std::int64_t left_ns = -1;     // when its vGPU was removed; -1: never
  std::vector<SaleTerms> terms;  // in order
  double ceiling = 1;
  double promised_fps = 0;
  bool best_effort = false;
  std::vector<TaskRecord> tasks;             // of migration scenarios
  std::vector<KernelRunRecord> kernel_runs;  // of cluster scenarios, where a tenant is a kernel
  // Of its processes while they were attached: what their agents took from the allowance, and their device time.
  std::int64_t charged_ns = 0;
  std::int64_t worked_ns = 0;
  // Since the last start of its node's daemon: the same device time, and the daemon's own total.
  std::int64_t worked_since_ns = 0;
  std::int64_t booked_ns = 0;
};

struct RunRecord {
  std::string label;
  std::int64_t span_ns = 0;
  std::int64_t warm_up_ns = 0;
  std::vector<TenantRecord> tenants{};
  std::vector<std::int64_t> device_busy_ns{};  // [device]
  // [device][whole second]: the longest idle stretch that ended in that second. Idle: the device had no work although a
  // program waited at its gate.
  std::vector<std::vector<std::int64_t>> longest_idle_ns_by_s{};
  double processing_s = 0;  // of cluster scenarios: the sum over kernels of seconds times the part of threads in use
  core::Prices prices{};
  std::vector<SellingMode> selling{};  // in order
  std::vector<SaleRefused> refused{};  // in order
  std::uint64_t events = 0;
  std::uint64_t actions = 0;
  std::uint64_t looks = 0;                // polls
  std::uint64_t digest = 0;               // of all actions; equal for equal seeds
  std::vector<std::string> violations{};  // of rules that the simulation checks during the run
};

}  // namespace weir::sim
