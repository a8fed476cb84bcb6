// SPDX-License-Identifier: Apache-2.0
// What cluster scenarios consist of: devices that run several kernels at once in one context, and the kernels that are
// submitted (gCloud, sections III and V). Plain data. Played by cluster_simulation.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/placement/load.h"
#include "core/schedule/policy_table.h"

namespace weir::sim {

struct ClusterDevices {
  std::uint32_t count = 1;  // all alike
  Bytes memory{};
  std::uint32_t runs_max = 16;
  std::uint32_t processors = 1;
  std::uint32_t threads = 0;  // resident at once, on all of its processors
  std::uint32_t blocks = 0;   // likewise
  double bytes_per_s = 0;     // of global memory
  Bytes cache{};              // what local memory is kept in before it goes to global memory
  Duration context{};         // its creation
  // Below 0: kernels run at once. Else they take turns, as on a processor, and this part of the time goes while there
  // are several.
  double turn_loss = -1;
};

struct ClusterKernel {
  std::string name{};
  Bytes memory{};
  Duration host{};              // before its kernel: reading, preparing, copying in
  std::uint32_t blocks = 1;     // of a launch
  std::uint32_t threads = 256;  // of a block
  Bytes local{};                // of a thread
  Duration per_thread{};        // of a processor for each of its threads; blocks are spread over the processors
  Duration kernel{};            // or, where this isn't 0, a launch with all the memory traffic it wants takes this
  double processing = -1;       // part of the device's threads that it keeps busy; below 0: of the launch
  double bytes_per_s = 0;       // of global memory, local memory's not counted
  std::optional<core::Loads> loads{};  // as they were measured, instead of what follows from the fields above
};

/// Two kernels, by their numbers, as they were measured together: what each took while the other one ran all the time.
struct ClusterPair {
  std::uint32_t first = 0, second = 0;
  double first_s = 0, second_s = 0;
};

struct ClusterWorld {
  ClusterDevices devices{};
  std::vector<ClusterKernel> kernels{};
  std::vector<ClusterPair> pairs{};  // none: how kernels disturb each other follows from the model (kernel_cost.h)
};

/// Of a run.
struct ClusterRun {
  std::string placement = "serial";
  core::PolicyParams params{};
  bool context_each = false;           // every application makes its own context first; else it is there
  std::vector<std::string> kernels{};  // those submitted, in turn; empty: all
  std::uint32_t runs = 1;
  Duration gap{};                         // between two submissions
  std::uint64_t shuffle = 0;              // 0: in turn; else drawn by this
  bool profiled = true;                   // the placement's model knows solo and pair runs of all kernels
  bool learns = false;                    // it learns from each run
  std::uint32_t blocks = 0, threads = 0;  // of every kernel, in the place of its own; 0: its own
};

/// What became of one submitted run. Times in ns since the beginning.
struct KernelRunRecord {
  std::int64_t submitted_ns = 0, started_ns = 0, end_ns = -1;  // -1: not done
  std::int64_t kernel_ns = 0;                                  // of its kernel
  std::int64_t alone_ns = 0;                                   // that it would have been alone
  std::uint32_t device = 0;
};

}  // namespace weir::sim
