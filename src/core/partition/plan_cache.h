// SPDX-License-Identifier: Apache-2.0
// Cache of launches that were cut before: the needs of their parts and their plans. The same launch again costs one
// comparison. Pure. Page: docs/partition.md
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "core/partition/footprint_need.h"
#include "core/partition/plan.h"
#include "kernel/analysis_frames.h"

namespace weir::core {

/// All inputs of a plan except the launch itself.
struct PlanViews {
  PartitionMode mode = PartitionMode::kAuto;
  DeviceView here{};
  std::vector<PeerView> peers{};
};

/// Whether a plan for one of the views is good enough for the other: they have the same nodes, room and order, and all
/// measured values differ by at most an eighth.
bool Alike(const PlanViews& a, const PlanViews& b);

/// One launch of an analysed kernel: evaluates its needs once, and keeps its plans.
class CutLaunchPlans {
 public:
  static constexpr std::size_t kPlansMax = 4;

  /// Copies `launch` with its arguments; it has passed CheckLaunch. `analysis` owns `access`.
  CutLaunchPlans(std::shared_ptr<const kernel::ProgramAnalysis> analysis, const kernel::KernelAccess& access,
                 const kernel::KernelLaunch& launch, std::uint64_t alignment);
  CutLaunchPlans(const CutLaunchPlans&) = delete;
  CutLaunchPlans& operator=(const CutLaunchPlans&) = delete;

  [[nodiscard]] const FootprintNeed& need() const { return need_; }
  [[nodiscard]] const kernel::KernelLaunch& launch() const { return launch_; }
  /// The result of MakePlan for the whole launch with these views, or with similar ones. Valid until the next call.
  const Plan& PlanFor(const PlanViews& views, bool from_elsewhere);
  [[nodiscard]] std::uint64_t made() const { return made_; }  // number of plans made so far

 private:
  struct CachedPlan {
    PlanViews views;
    bool from_elsewhere = false;
    Plan plan;
  };

  const std::shared_ptr<const kernel::ProgramAnalysis> analysis_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<kernel::LaunchArgument> arguments_;
  kernel::KernelLaunch launch_;
  FootprintNeed need_;
  std::list<CachedPlan> plans_;  // most recently used first
  std::uint64_t made_ = 0;
};

/// Cached launches of one session. Two launches with the same key have the same needs.
class LaunchCache {
 public:
  static constexpr std::size_t kLaunchesMax = 64;

  /// Key of a launch of kernel number `kernel` of program number `program`. It contains everything that determines its
  /// needs: geometry, buffer positions, and those bytes of scalars that accesses depend on.
  static std::vector<std::byte> KeyOf(std::uint64_t program, std::size_t kernel, const kernel::KernelAccess& access,
                                      const kernel::KernelLaunch& launch, std::uint64_t alignment);

  /// Null if the launch is not in the cache.
  CutLaunchPlans* Find(std::span<const std::byte> key);
  /// Adds a launch. The least recently used one is removed if there are too many.
  CutLaunchPlans& Keep(std::vector<std::byte> key, std::unique_ptr<CutLaunchPlans> plans);
  [[nodiscard]] std::size_t size() const { return launches_.size(); }

 private:
  struct Known {
    std::vector<std::byte> key;
    std::unique_ptr<CutLaunchPlans> plans;
  };
  std::list<Known> launches_;  // most recently used first
};

}  // namespace weir::core
