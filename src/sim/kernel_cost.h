// SPDX-License-Identifier: Apache-2.0
// What a launch needs of a device's resources, and how fast kernels run that share them. Cluster scenarios are played
// by this model; a placement sees it only through measured times. Page: docs/placement.md
//
// A kernel at full speed uses a part of the device's thread slots, of its block slots, and of global memory's
// bandwidth. Its threads' local memory is cached; accesses that miss the cache, because the local memory of all kernels
// together is larger, go to global memory. A device may also run kernels in turns, as a CPU does. Then a kernel has all
// of the device or nothing, and its loads do not show how it slows others. Where a resource is short, kernels share it
// so that each one's largest part of any resource grows evenly until the kernel runs at full speed (dominant resource
// fairness; Ghodsi and others, NSDI 2011).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/placement/load.h"
#include "sim/cluster_world.h"

namespace weir::sim {

/// One launch at full speed. `threads`, `blocks`, the two kinds of traffic and `turn` are parts of what the device has.
struct KernelCost {
  double seconds = 0;
  double threads = 0;
  double blocks = 0;
  double traffic = 0;        // to global memory, without local memory's
  double local_traffic = 0;  // of local memory, if nothing of it were cached
  double local_bytes = 0;    // of all resident threads
  double turn = 0;           // 1 where kernels take turns, 0 where they run at once
  double turn_loss = 0;      // part of its speed that it loses while other kernels take turns with it
};

KernelCost CostOf(const ClusterKernel& kernel, const ClusterDevices& device);

/// Speeds of kernels that run together, in the same order; 1 is full speed. `cache`: bytes.
std::vector<double> SpeedsOf(std::span<const KernelCost> together, double cache);

/// What a profiler measures when the kernel runs alone: its loads, memory and time.
core::RunNeed MeasuredAlone(const ClusterKernel& kernel, const ClusterDevices& device);
/// The device as a placement knows it.
core::DeviceCapacity CapacityFor(const ClusterDevices& device);

}  // namespace weir::sim
