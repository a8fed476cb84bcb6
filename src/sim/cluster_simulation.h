// SPDX-License-Identifier: Apache-2.0
// One run of a cluster scenario in virtual time: applications are submitted, core/placement decides on which device
// each one runs, and a device runs its kernels at once, at the speeds of kernel_cost.h. Like migration_simulation.h
// this is a simulation of its own.
//
//   submitted ──▶ waits ──▶ placed: it has memory and a place ──▶ context, host work ──▶ kernel ──▶ done
//                 core/placement/run_queue.h                      a fixed time           shares the device
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
  /// The scenario must have been checked (scenario_file.h), have a `cluster`, and outlive the simulation. With
  /// `keep_frames` each run is also recorded as a frame, for plots.
  ClusterSimulation(const Scenario& scenario, const Run& run, std::uint64_t seed, bool keep_frames = true);

  void RunUntil(Duration at);
  [[nodiscard]] RunRecord Take();
  [[nodiscard]] std::uint64_t events() const { return out_.events; }
  [[nodiscard]] core::Placement& placement() { return queue_.placement(); }

 private:
  struct Application {
    std::uint32_t kernel = 0;
    double left_s = 0;  // remaining time of its kernel at full speed
    Instant launched{};
    core::Company company{};
    KernelRunRecord record{};
  };
  struct Device {
    std::vector<std::uint32_t> running;  // applications in their kernels, in the order of their launches
    std::vector<double> speeds;          // of the running applications
    Instant at{};                        // the kernels' progress is computed up to this time
    std::uint32_t stamp = 0;             // see Event::stamp
    std::int64_t busy_ns = 0;            // time in which a kernel was running
    // Applications placed here and their memory in bytes, counted independently of the placement to check it.
    std::uint32_t placed = 0;
    std::uint64_t used = 0;
  };

  /// Fits the placement's model to solo and pair runs, where it has a model and the run wants it.
  void Profile();
  void SubmitNext();
  /// Carries out the run queue's actions.
  void Carry();
  void Launch(std::uint32_t application);
  void FinishKernels(std::uint32_t device);
  void Advance(Device& device);
  void Retune(std::uint32_t device);
  /// Counts an action, and adds it to the digest.
  void Note(std::uint64_t what);

  const Scenario& scenario_;
  const ClusterWorld& world_;
  const ClusterRun run_;
  const bool keep_frames_;
  std::vector<ClusterKernel> kernels_;  // with what this run changes
  const MeasuredPairs pairs_;
  std::vector<KernelCost> costs_;
  std::vector<core::RunNeed> needs_;
  std::vector<double> alone_s_;          // [kernel]: its time alone
  std::vector<std::uint32_t> sequence_;  // the kernels in the order in which they are submitted
  core::RunQueue queue_;
  std::vector<core::RunAction> actions_;
  std::vector<Application> applications_;
  std::vector<Device> devices_;
  // Only used within Retune: kept to reuse their memory.
  std::vector<KernelCost> together_;
  std::vector<std::uint32_t> numbers_;
  EventHeap heap_;
  Instant now_{};
  RunRecord out_;
};

/// A model fitted to solo and pair runs of these kernels on one device of the world, as a profiler would measure them
/// or, where the world has measured pairs, did measure them.
Result<core::InterferenceModel> ProfileAll(std::span<const ClusterKernel> kernels, const ClusterWorld& world,
                                           const core::PolicyParams& params);

}  // namespace weir::sim
