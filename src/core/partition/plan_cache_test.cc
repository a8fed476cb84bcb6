// SPDX-License-Identifier: Apache-2.0
#include "core/partition/plan_cache.h"

#include <gtest/gtest.h>

#include "tests/harness/drawn_kernel.h"

namespace weir::core {
namespace {

using enum PlanKind;

/// to[id] = from[id + n] * other: accesses depend on one of the two int arguments.
struct PlanCacheRig {
  static constexpr std::uint64_t kGroups = 4096, kLocal = 64, kBytes = kGroups * kLocal * 4;

  PlanCacheRig() {
    kernel::DrawnKernel kernel;
    const auto from = kernel.Buffer(), to = kernel.Buffer();
    const auto n = kernel.Scalar();
    kernel.Scalar();
    const auto at = kernel.Plus(kernel.Id(0), kernel.Int(n));
    kernel.Touch(from, false, kernel.Scaled(at, 4));
    kernel.Touch(to, true, kernel.Scaled(kernel.Id(0), 4));
    kernel.Done();
    analysis = std::make_shared<const kernel::ProgramAnalysis>(kernel::ProgramAnalysis{.kernels = {kernel.access}});
    arguments[0] = {.memory = 1, .bytes = kBytes};
    arguments[1] = {.memory = 2, .bytes = kBytes};
    arguments[2].value = std::as_bytes(std::span(&shifted, 1));
    arguments[3].value = std::as_bytes(std::span(&other, 1));
    launch = {.global = {kGroups * kLocal, 1, 1}, .local = {kLocal, 1, 1}, .arguments = arguments};
  }
  [[nodiscard]] const kernel::KernelAccess& access() const { return analysis->kernels.front(); }
  [[nodiscard]] std::vector<std::byte> Key() const { return LaunchCache::KeyOf(1, 0, access(), launch, 16); }
  [[nodiscard]] std::unique_ptr<CutLaunchPlans> Plans() const {
    return std::make_unique<CutLaunchPlans>(analysis, access(), launch, 16);
  }
  static PlanViews Views(std::uint64_t room, double peer_bytes_per_s = 1e8) {
    DeviceView here{
        .room = Bytes{room}, .total = Bytes{room}, .in_bytes_per_s = 8e9, .out_bytes_per_s = 8e9, .group_s = 1e-3};
    PeerView peer{.id = NodeId{1}, .device = here, .link = {.bytes_per_s = peer_bytes_per_s}};
    return {.here = here, .peers = {peer}};
  }

  std::int32_t shifted = 0, other = 0;
  std::shared_ptr<const kernel::ProgramAnalysis> analysis;
  std::array<kernel::LaunchArgument, 4> arguments{};
  kernel::KernelLaunch launch{};
};

TEST(LaunchCache, TheKeyOmitsScalarsWithoutEffectOnAccesses) {
  PlanCacheRig rig;
  const auto key = rig.Key();
  rig.other = 7;
  EXPECT_EQ(rig.Key(), key);
  rig.shifted = 1;
  EXPECT_NE(rig.Key(), key);
}

TEST(LaunchCache, TheKeyContainsBufferLayoutAndLaunchSize) {
  PlanCacheRig rig;
  const auto key = rig.Key();
  for (auto change :
       {+[](PlanCacheRig& r) { r.arguments[1].offset = 64; }, +[](PlanCacheRig& r) { r.arguments[1].bytes -= 4; },
        +[](PlanCacheRig& r) { r.arguments[1].memory = 1; }, +[](PlanCacheRig& r) { r.launch.global[0] -= 64; },
        +[](PlanCacheRig& r) { r.launch.offset[0] = 64; }, +[](PlanCacheRig& r) { r.launch.local[0] = 32; }}) {
    PlanCacheRig changed;
    change(changed);
    EXPECT_NE(changed.Key(), key);
  }
}

TEST(LaunchCache, AreBoundedAndEvictTheLeastRecentlyUsed) {
  PlanCacheRig rig;
  LaunchCache kept;
  const auto first = rig.Key();
  kept.Keep(first, rig.Plans());
  for (std::size_t i = 1; i < 3 * LaunchCache::kLaunchesMax; ++i) {
    rig.launch.global[0] = (1 + i) * PlanCacheRig::kLocal;
    kept.Keep(rig.Key(), rig.Plans());
    EXPECT_NE(kept.Find(first), nullptr);
  }
  EXPECT_EQ(kept.size(), LaunchCache::kLaunchesMax);
  rig.launch.global[0] = 2 * PlanCacheRig::kLocal;
  EXPECT_EQ(kept.Find(rig.Key()), nullptr);
}

TEST(CutLaunchPlans, TheSameLaunchAgainEvaluatesNothing) {
  const PlanCacheRig rig;
  const auto plans = rig.Plans();
  const PlanViews views = PlanCacheRig::Views(PlanCacheRig::kBytes);
  const Plan first = plans->PlanFor(views, false);
  EXPECT_EQ(first.kind, kSplit);
  const std::uint64_t evaluated = plans->need().evaluated();
  // A line through two cuts predicts the third; bisection alone would take some forty evaluations.
  EXPECT_LE(evaluated, 24U);
  EXPECT_EQ(plans->PlanFor(views, false).ends, first.ends);
  EXPECT_EQ(plans->made(), 1U);
  EXPECT_EQ(plans->need().evaluated(), evaluated);
}

TEST(CutLaunchPlans, APeerThatIsALittleFasterChangesNothing) {
  const PlanCacheRig rig;
  const auto plans = rig.Plans();
  plans->PlanFor(PlanCacheRig::Views(PlanCacheRig::kBytes, 1e8), false);
  plans->PlanFor(PlanCacheRig::Views(PlanCacheRig::kBytes, 1.05e8), false);
  EXPECT_EQ(plans->made(), 1U);
  plans->PlanFor(PlanCacheRig::Views(PlanCacheRig::kBytes, 2e8), false);
  EXPECT_EQ(plans->made(), 2U);
}

TEST(CutLaunchPlans, LessRoomOrNoPeerGivesAnotherPlan) {
  const PlanCacheRig rig;
  const auto plans = rig.Plans();
  PlanViews views = PlanCacheRig::Views(PlanCacheRig::kBytes);
  EXPECT_EQ(plans->PlanFor(views, false).kind, kSplit);
  EXPECT_EQ(plans->PlanFor(views, true).kind, kPieces) << "what came from elsewhere is not sent on";
  views.here.room = Bytes{PlanCacheRig::kBytes / 2};
  plans->PlanFor(views, false);
  views.peers.clear();
  EXPECT_EQ(plans->PlanFor(views, false).kind, kPieces);
  EXPECT_EQ(plans->made(), 4U);
}

}  // namespace
}  // namespace weir::core
