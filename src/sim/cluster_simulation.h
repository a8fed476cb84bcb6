// SPDX-License-Identifier: Apache-2.0
// One run of a cluster scenario in virtual time: applications come, core/placement says on which device each one runs,
// and devices run the kernels that are on them at once, as fast as kernel_cost.h lets them. A simulation of its own, as
// migration_simulation.h is.
//
//   submitted ──▶ waits ──▶ placed: memory and a place are its own ──▶ context, host work ──▶ kernel ──▶ done
//                 core/placement/run_queue.h                          a fixed time          shared with others
#pragma once

#include <vector>

#include "core/placement/run_queue.h"
#include "sim/event_heap.h"
#include "sim/kernel_cost.h"
#include "sim/measured_pairs.h"
#include "sim/record.h"
#include "sim/scenario.h"

namespace weir::sim {

class ClusterSimulation {
 public:
  /// The scenario must have been checked (scenario_file.h), have a `cluster`, and outlive the simulation. A run is kept
  /// as a frame, too, with `keep_frames`: for plots.
  ClusterSimulation(const Scenario& scenario, const Run& run, std::uint64_t seed, bool keep_frames = true);

  void RunUntil(Duration at);
  [[nodiscard]] RunRecord Take();
  [[nodiscard]] std::uint64_t events() const { return out_.events; }
  [[nodiscard]] core::Placement& placement() { return queue_.placement(); }

 private:
  struct Application {
    std::uint32_t kernel = 0;
    double left_s = 0;  // of its kernel, at full speed
    Instant launched{};
    core::Company company{};
    KernelRunRecord record{};
  };
  struct Device {
    std::vector<std::uint32_t> running;  // applications in their kernels, in the order of their launches
    std::vector<double> speeds;          // of these
    Instant at{};                        // up to when the kernels' work is reckoned
    std::uint32_t stamp = 0;
    std::int64_t busy_ns = 0;  // a kernel was running
    std::uint32_t placed = 0;  // by our own count, to check the placement's
    std::uint64_t used = 0;
  };

  void Profile();
  void SubmitNext();
  void Carry();
  void Launch(std::uint32_t application);
  void FinishKernels(std::uint32_t device);
  void Advance(Device& device);
  void Retune(std::uint32_t device);
  void Note(std::uint64_t what);

  const Scenario& scenario_;
  const ClusterWorld& world_;
  const ClusterRun run_;
  const bool keep_frames_;
  std::vector<ClusterKernel> kernels_;  // as this run has them
  const MeasuredPairs pairs_;
  std::vector<KernelCost> costs_;
  std::vector<core::RunNeed> needs_;
  std::vector<double> alone_s_;          // of their kernels
  std::vector<std::uint32_t> sequence_;  // kernels that are submitted, in this order
  core::RunQueue queue_;
  std::vector<core::RunAction> actions_;
  std::vector<Application> applications_;
  std::vector<Device> devices_;
  std::vector<KernelCost> together_;    // of one device, while its speeds are reckoned
  std::vector<std::uint32_t> numbers_;  // likewise
  EventHeap heap_;
  Instant now_{};
  RunRecord out_;
};

/// Solo and pair runs of these kernels on one device of the world, as a profiler would measure them, or as one has.
Result<core::InterferenceModel> ProfileAll(std::span<const ClusterKernel> kernels, const ClusterWorld& world,
                                           const core::PolicyParams& params);

}  // namespace weir::sim
