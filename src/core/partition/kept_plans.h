// SPDX-License-Identifier: Apache-2.0
// Launches that were cut before: what their parts need, and how they were cut, so that the same launch again costs a
// comparison. Pure. Page: docs/partition.md
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "core/partition/analysis_frames.h"
#include "core/partition/footprint_need.h"
#include "core/partition/plan.h"

namespace weir::core {

/// All that a plan is made from, but for the launch itself.
struct PlanViews {
  PartitionMode mode = PartitionMode::kAuto;
  DeviceView here{};
  std::vector<PeerView> peers{};
};

/// Whether a plan for the one is good enough for the other: the same nodes with the same room and order, and everything
/// that is measured within an eighth.
bool Alike(const PlanViews& a, const PlanViews& b);

/// One launch of an analysed kernel: its needs are evaluated once, and its plans kept.
class CutLaunchPlans {
 public:
  static constexpr std::size_t kPlansMax = 4;

  /// `launch` is copied with its arguments, and has been checked (CheckLaunch). `analysis` holds `access`.
  CutLaunchPlans(std::shared_ptr<const ProgramAnalysis> analysis, const KernelAccess& access,
                 const KernelLaunch& launch, std::uint64_t alignment);
  CutLaunchPlans(const CutLaunchPlans&) = delete;
  CutLaunchPlans& operator=(const CutLaunchPlans&) = delete;

  [[nodiscard]] const FootprintNeed& need() const { return need_; }
  [[nodiscard]] const KernelLaunch& launch() const { return launch_; }
  /// MakePlan's for the whole launch in these views, or in some that are alike. Good until the next call.
  const Plan& PlanFor(const PlanViews& views, bool from_elsewhere);
  [[nodiscard]] std::uint64_t made() const { return made_; }  // plans, so far

 private:
  struct Kept {
    PlanViews views;
    bool from_elsewhere = false;
    Plan plan;
  };

  const std::shared_ptr<const ProgramAnalysis> analysis_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<LaunchArgument> arguments_;
  KernelLaunch launch_;
  FootprintNeed need_;
  std::list<Kept> plans_;  // the last used in front
  std::uint64_t made_ = 0;
};

/// Those of one session. Keys are exact: what two launches with the same key need is the same.
class KeptLaunches {
 public:
  static constexpr std::size_t kLaunchesMax = 64;

  /// What decides about the needs of a launch of kernel number `kernel` of program number `program`: geometry, where
  /// buffers lie, and of scalars only the bytes that accesses depend on.
  static std::vector<std::byte> KeyOf(std::uint64_t program, std::size_t kernel, const KernelAccess& access,
                                      const KernelLaunch& launch, std::uint64_t alignment);

  /// Null: it was not kept, or no longer.
  CutLaunchPlans* Find(std::span<const std::byte> key);
  CutLaunchPlans& Keep(std::vector<std::byte> key, std::unique_ptr<CutLaunchPlans> plans);
  [[nodiscard]] std::size_t size() const { return launches_.size(); }

 private:
  struct Known {
    std::vector<std::byte> key;
    std::unique_ptr<CutLaunchPlans> plans;
  };
  std::list<Known> launches_;  // the last used in front
};

}  // namespace weir::core
