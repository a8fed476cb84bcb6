// SPDX-License-Identifier: Apache-2.0
// Launches of one session that run in parts, because their memory does not fit the device or because peers help.
// partitioned_launches_plan.cc decides where a launch is cut; partitioned_launches.cc runs the parts.
// Page: docs/partition.md
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/partition/hand_out.h"
#include "core/partition/plan_cache.h"
#include "opencl/executor/batches.h"
#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/command_memory.h"
#include "opencl/executor/commands.h"
#include "opencl/executor/event_ends.h"
#include "opencl/executor/peers.h"
#include "opencl/executor/shared.h"
#include "opencl/executor/slices.h"

namespace weir::opencl {

using core::GroupRange;

struct CutLaunch;
struct CutPart;
struct PartThere;
struct SharedCut;

class PartitionedLaunches {
 public:
  /// `stop`: ends every wait.
  PartitionedLaunches(Shared& shared, const Client& client, ClientObjects& objects, Batches& batches,
                      CommandMemory& memory, Commands& commands, const EventEnds& ends, const std::atomic<bool>& stop);
  PartitionedLaunches(const PartitionedLaunches&) = delete;
  PartitionedLaunches& operator=(const PartitionedLaunches&) = delete;

  /// Records an argument for the analysis of later launches.
  static void RememberArg(Kernel& kernel, const proto::cl::SetArg& m);
  /// A kernel was created, which AnalyseAhead has not seen.
  void AddKernel() { looked_ahead_ = false; }
  /// Analyses the client's kernels in advance if there is more memory than the device may hold, because launches may
  /// soon have to be partitioned.
  void AnalyseAhead();

  /// Runs a partitioned launch and waits for its end. False: it cannot be partitioned, why_not() holds the reason, and
  /// nothing has run.
  bool Run(const proto::cl::NdRange& m, Queue& queue, Kernel& kernel, const Launch& launch);
  [[nodiscard]] const std::string& why_not() const { return no_parts_; }
  void Forget() { no_parts_.clear(); }

 private:
  Result<PartProgram::Part> PartOf(Kernel& kernel, proto::ExecutorStatistics& cost);
  Status PrepareCut(CutLaunch& cut, Kernel& kernel, const Launch& launch, proto::ExecutorStatistics& cost);
  Status GatherArgs(CutLaunch& cut, const Kernel& kernel) const;
  static void GatherSizes(CutLaunch& cut, const Launch& launch);
  core::PlanViews ViewsFor(CutLaunch& cut, const Kernel& kernel, bool alone) const;
  core::Plan PlanCut(CutLaunch& cut, const Kernel& kernel, bool alone);
  void JoinPeers(std::uint64_t need);
  cl_int RunCut(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  cl_int RunPlan(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  cl_int RunHandedOut(CutLaunch& cut, Kernel& kernel, EventSpan& span);
  void RunSharesThere(const CutLaunch& cut, SharedCut& shared, std::size_t worker) const;
  cl_int RunLocalShares(CutLaunch& cut, Kernel& kernel, SharedCut& shared, EventSpan& span);
  cl_int RunHere(CutLaunch& cut, Kernel& kernel, const GroupRange& range, const std::vector<std::uint64_t>& ends,
                 EventSpan& span);
  static std::vector<std::uint64_t> EndsThatFit(const CutLaunch& cut, const GroupRange& range);
  Status SliceUp(const CutLaunch& cut, const GroupRange& range, PartLaunch& part) const;
  cl_int BeginThere(CutLaunch& cut, std::uint64_t first, std::vector<PartThere>& there, std::vector<GroupRange>& back);
  static std::vector<const std::byte*> ContentsOf(const CutLaunch& cut, const PartLaunch& part);
  Status EndThere(const CutLaunch& cut, const PartThere& part);
  cl_int RunPart(CutLaunch& cut, Kernel& kernel, CutPart& part, EventSpan& span);
  void MakeSlices(CutLaunch& cut, CutPart& part);
  cl_int SetPartArgs(const CutLaunch& cut, const CutPart& part) const;
  cl_int EnqueuePart(const CutLaunch& cut, CutPart& part);

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  Batches& batches_;
  CommandMemory& memory_;
  Commands& commands_;
  const EventEnds& ends_;
  const std::atomic<bool>& stop_;
  Peers peers_;
  core::LaunchCache launch_cache_;
  std::string no_parts_;       // why the last launch cannot be partitioned
  bool looked_ahead_ = false;  // the programs of all kernels were analysed in advance
};

}  // namespace weir::opencl
