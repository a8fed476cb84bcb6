// SPDX-License-Identifier: Apache-2.0
// What a launch asks of a device's resources, and how fast kernels run that share them: the truth of cluster scenarios,
// which a placement sees only through measured times. Page: docs/placement.md
//
// A kernel at full speed uses a part of the device's thread slots, of its block slots, and of global memory's rate.
// Local memory is what its threads keep for themselves; what the cache doesn't hold of all kernels' together goes to
// global memory. A device may also give kernels turns, as a processor does: then one has all of it or nothing, and no
// counter of loads tells. Where a resource is short, kernels share it so that each one's largest part of any resource
// grows evenly until it has what it asks for (dominant resource fairness; Ghodsi and others, NSDI 2011).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/placement/load.h"
#include "sim/cluster_world.h"

namespace weir::sim {

struct KernelCost {
  double seconds = 0;  // at full speed
  double threads = 0;  // parts of the device's, at full speed
  double blocks = 0;
  double traffic = 0;        // without local memory's
  double local_traffic = 0;  // of local memory, if nothing of it were cached
  double local_bytes = 0;    // of all resident threads
  double turn = 0;           // part of the device's turns: all of them, or none where kernels run at once
  double turn_loss = 0;      // while others take turns with it
};

KernelCost CostOf(const ClusterKernel& kernel, const ClusterDevices& device);

/// Speeds of kernels that run together, 1 being full; in their order. `cache`: bytes.
std::vector<double> SpeedsOf(std::span<const KernelCost> together, double cache);

/// What a profiler sees of it alone: its loads, memory and time.
core::RunNeed MeasuredAlone(const ClusterKernel& kernel, const ClusterDevices& device);
core::DeviceCapacity CapacityFor(const ClusterDevices& device);

}  // namespace weir::sim
