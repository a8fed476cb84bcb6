// SPDX-License-Identifier: Apache-2.0
#include "core/partition/kept_plans.h"

#include <gtest/gtest.h>

#include "tests/harness/drawn_kernel.h"

namespace weir::core {
namespace {

using enum PlanKind;

/// to[id] = from[id + n] * other: accesses depend on one of the two int arguments.
struct KeptRig {
  static constexpr std::uint64_t kGroups = 4096, kLocal = 64, kBytes = kGroups * kLocal * 4;

  KeptRig() {
    DrawnKernel kernel;
    const auto from = kernel.Buffer(), to = kernel.Buffer();
    const auto n = kernel.Scalar();
    kernel.Scalar();
    const auto at = kernel.Plus(kernel.Id(0), kernel.Int(n));
    kernel.Touch(from, false, kernel.Scaled(at, 4));
    kernel.Touch(to, true, kernel.Scaled(kernel.Id(0), 4));
    kernel.Done();
    analysis = std::make_shared<const ProgramAnalysis>(ProgramAnalysis{.kernels = {kernel.access}});
    arguments[0] = {.memory = 1, .bytes = kBytes};
    arguments[1] = {.memory = 2, .bytes = kBytes};
    arguments[2].value = std::as_bytes(std::span(&shifted, 1));
    arguments[3].value = std::as_bytes(std::span(&other, 1));
    launch = {.global = {kGroups * kLocal, 1, 1}, .local = {kLocal, 1, 1}, .arguments = arguments};
  }
  [[nodiscard]] const KernelAccess& access() const { return analysis->kernels.front(); }
  [[nodiscard]] std::vector<std::byte> Key() const { return KeptLaunches::KeyOf(1, 0, access(), launch, 16); }
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
  std::shared_ptr<const ProgramAnalysis> analysis;
  std::array<LaunchArgument, 4> arguments{};
  KernelLaunch launch{};
};

TEST(KeptLaunches, TheKeyOmitsScalarsWithoutEffectOnAccesses) {
  KeptRig rig;
  const auto key = rig.Key();
  rig.other = 7;
  EXPECT_EQ(rig.Key(), key);
  rig.shifted = 1;
  EXPECT_NE(rig.Key(), key);
}

TEST(KeptLaunches, TheKeyContainsBufferLayoutAndLaunchSize) {
  KeptRig rig;
  const auto key = rig.Key();
  for (auto change : {+[](KeptRig& r) { r.arguments[1].offset = 64; }, +[](KeptRig& r) { r.arguments[1].bytes -= 4; },
                      +[](KeptRig& r) { r.arguments[1].memory = 1; }, +[](KeptRig& r) { r.launch.global[0] -= 64; },
                      +[](KeptRig& r) { r.launch.offset[0] = 64; }, +[](KeptRig& r) { r.launch.local[0] = 32; }}) {
    KeptRig changed;
    change(changed);
    EXPECT_NE(changed.Key(), key);
  }
}

TEST(KeptLaunches, AreBoundedAndEvictTheLeastRecentlyUsed) {
  KeptRig rig;
  KeptLaunches kept;
  const auto first = rig.Key();
  kept.Keep(first, rig.Plans());
  for (std::size_t i = 1; i < 3 * KeptLaunches::kLaunchesMax; ++i) {
    rig.launch.global[0] = (1 + i) * KeptRig::kLocal;
    kept.Keep(rig.Key(), rig.Plans());
    EXPECT_NE(kept.Find(first), nullptr);
  }
  EXPECT_EQ(kept.size(), KeptLaunches::kLaunchesMax);
  rig.launch.global[0] = 2 * KeptRig::kLocal;
  EXPECT_EQ(kept.Find(rig.Key()), nullptr);
}

TEST(CutLaunchPlans, TheSameLaunchAgainEvaluatesNothing) {
  const KeptRig rig;
  const auto plans = rig.Plans();
  const PlanViews views = KeptRig::Views(KeptRig::kBytes);
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
  const KeptRig rig;
  const auto plans = rig.Plans();
  plans->PlanFor(KeptRig::Views(KeptRig::kBytes, 1e8), false);
  plans->PlanFor(KeptRig::Views(KeptRig::kBytes, 1.05e8), false);
  EXPECT_EQ(plans->made(), 1U);
  plans->PlanFor(KeptRig::Views(KeptRig::kBytes, 2e8), false);
  EXPECT_EQ(plans->made(), 2U);
}

TEST(CutLaunchPlans, LessRoomOrNoPeerGivesAnotherPlan) {
  const KeptRig rig;
  const auto plans = rig.Plans();
  PlanViews views = KeptRig::Views(KeptRig::kBytes);
  EXPECT_EQ(plans->PlanFor(views, false).kind, kSplit);
  EXPECT_EQ(plans->PlanFor(views, true).kind, kPieces) << "what came from elsewhere is not sent on";
  views.here.room = Bytes{KeptRig::kBytes / 2};
  plans->PlanFor(views, false);
  views.peers.clear();
  EXPECT_EQ(plans->PlanFor(views, false).kind, kPieces);
  EXPECT_EQ(plans->made(), 4U);
}

}  // namespace
}  // namespace weir::core
