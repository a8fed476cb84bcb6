// SPDX-License-Identifier: Apache-2.0
// The parts of cluster scenarios: devices that run several kernels at once in one context, and the kernels that are
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
  std::uint32_t threads = 0;  // resident at once, on all processors of a device
  std::uint32_t blocks = 0;   // resident at once, on all processors of a device
  double bytes_per_s = 0;     // of global memory
  Bytes cache{};              // of local memory; what does not fit goes to global memory
  Duration context{};         // time to create one
  // Below 0: kernels run at once. Otherwise they take turns, as on a CPU, and this part of the time is lost while there
  // are several of them.
  double turn_loss = -1;
};

struct ClusterKernel {
  std::string name{};
  Bytes memory{};
  Duration host{};              // time on the host before the kernel: reading, preparing, copying in
  std::uint32_t blocks = 1;     // of a launch
  std::uint32_t threads = 256;  // of a block
  Bytes local{};                // of a thread
  Duration per_thread{};        // a processor's time for each thread; blocks are spread over the processors
  Duration kernel{};            // if not 0, the time of a launch at full speed, instead of `per_thread`
  double processing = -1;       // part of the device's threads that it keeps busy; below 0: computed from the launch
  double bytes_per_s = 0;       // traffic to global memory, without local memory's
  std::optional<core::Loads> loads{};  // measured loads, instead of those that follow from the fields above
};

/// Two kernels, by their numbers, that were measured together: the time of each while the other one always ran.
struct ClusterPair {
  std::uint32_t first = 0, second = 0;
  double first_s = 0, second_s = 0;
};

struct ClusterWorld {
  ClusterDevices devices{};
  std::vector<ClusterKernel> kernels{};
  std::vector<ClusterPair> pairs{};  // none: how kernels disturb each other follows from the model (kernel_cost.h)
};

/// What a run chooses.
struct ClusterRun {
  std::string placement = "serial";
  core::PolicyParams params{};
  bool context_each = false;           // every application creates a context first; else it uses one that exists
  std::vector<std::string> kernels{};  // the kernels that are submitted, in turn; empty: all
  std::uint32_t runs = 1;
  Duration gap{};                         // between two submissions
  std::uint64_t shuffle = 0;              // 0: kernels are submitted in turn; else a seed of their random order
  bool profiled = true;                   // the placement's model knows solo and pair runs of all kernels
  bool learns = false;                    // the model learns from each run
  std::uint32_t blocks = 0, threads = 0;  // of every kernel, instead of its own; 0: its own
};

/// The result of one submitted run. Times in ns since the beginning.
struct KernelRunRecord {
  std::int64_t submitted_ns = 0, started_ns = 0, end_ns = -1;  // -1: not done
  std::int64_t kernel_ns = 0;                                  // time of its kernel
  std::int64_t alone_ns = 0;                                   // the kernel's time if it ran alone
  std::uint32_t device = 0;
};

}  // namespace weir::sim
