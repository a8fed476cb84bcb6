// SPDX-License-Identifier: Apache-2.0
// What a run left behind, by the model's own account and not by the engine's books.
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

/// A frame that is done. Times in ns since the run began.
struct FrameRecord {
  std::int64_t end_ns = 0;
  std::int64_t latency_ns = 0;  // between the returns of two presents (VGRIS, section 3.2)
  std::int64_t gpu_ns = 0;      // that it cost the device
  std::int64_t pace_ns = 0;
  std::int64_t wait_ns = 0;
  std::int64_t took_ns = 0;       // the present, from the driver's call to its return
  std::int64_t predicted_ns = 0;  // what it was predicted to take; 0: no prediction
  bool paced = false;
  std::int64_t input_ns = 0;  // from when the program began the frame, after the delay of a late frame start
};

/// Slots of device memory that a tenant holds from a moment on.
struct MemoryHeld {
  std::int64_t at_ns = 0;
  std::uint32_t slots = 0;
};

/// A frame waited for its memory.
struct MemoryWait {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
};

/// What a vGPU is sold as, from a moment on.
struct SaleTerms {
  std::int64_t at_ns = 0;
  core::Sale sale = core::Sale::kGuaranteed;
  double ceiling = 1;
  double fps = 0;  // promised
};

/// How a device is sold, from a moment on.
struct SellingMode {
  std::int64_t at_ns = 0;
  std::uint32_t device = 0;
  core::OversellMode mode = core::OversellMode::kOff;
  double ratio = 0;  // of kStatic
};

/// A ceiling that was asked for and refused, or a way of selling.
struct SaleRefused {
  std::int64_t at_ns = 0;
  std::uint32_t device = 0;
  std::string tenant{};  // empty: `mode`
  double ceiling = 0;    // or the ratio of that
  core::OversellMode mode = core::OversellMode::kOff;
};

struct TenantRecord {
  std::string name;
  std::vector<FrameRecord> frames;  // empty when they are not kept
  // By whole second of the run.
  std::vector<std::int64_t> gpu_ns_by_s;
  std::vector<std::int64_t> wanting_ns_by_s;  // one of its loops waited at the gate, queued, or had the device run
  std::vector<std::uint32_t> frames_by_s;
  std::vector<std::uint32_t> copied_slots_by_s;
  std::vector<MemoryHeld> memory;  // in order; before the first: none
  // Where memory is elastic
  std::vector<MemoryHeld> held;          // slots that it may have, likewise
  std::vector<MemoryHeld> here;          // of these, its own now
  std::vector<MemoryWait> memory_waits;  // of a second and more, in order
  double copied_out_slots = 0;
  std::uint64_t frame_count = 0;
  std::int64_t gpu_ns = 0;
  // What was sold.
  std::int64_t sold_ns = 0;      // when; -1: never
  std::int64_t left_ns = -1;     // when its vGPU went; -1: never
  std::vector<SaleTerms> terms;  // in order
  double ceiling = 1;
  double promised_fps = 0;
  bool best_effort = false;
  std::vector<TaskRecord> tasks;             // of migration scenarios
  std::vector<KernelRunRecord> kernel_runs;  // of cluster scenarios, where a tenant is a kernel
  // For its processes while they were attached: what their agents took from the allowance, and what the device did.
  std::int64_t charged_ns = 0;
  std::int64_t worked_ns = 0;
  // The same since its daemon began, beside what that daemon says it was.
  std::int64_t worked_since_ns = 0;
  std::int64_t booked_ns = 0;
};

struct RunRecord {
  std::string label;
  std::int64_t span_ns = 0;
  std::int64_t warm_up_ns = 0;
  std::vector<TenantRecord> tenants{};
  std::vector<std::int64_t> device_busy_ns{};  // by device
  // By device and whole second: the longest stretch that ended in it, in which the device had no work although a
  // program waited at its gate.
  std::vector<std::vector<std::int64_t>> longest_idle_ns_by_s{};
  double processing_s = 0;  // of cluster scenarios: seconds of all of a device's threads
  core::Prices prices{};
  std::vector<SellingMode> selling{};  // in order
  std::vector<SaleRefused> refused{};  // likewise
  std::uint64_t events = 0;
  std::uint64_t actions = 0;
  std::uint64_t looks = 0;
  std::uint64_t digest = 0;               // of all actions; equal for equal seeds
  std::vector<std::string> violations{};  // what the checkers object to
};

}  // namespace weir::sim
