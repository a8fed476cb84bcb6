// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/sla_aware.h"

#include <gtest/gtest.h>

#include "core/schedule/policy_table.h"

namespace weir::core {
namespace {

Verdict Decide(const PolicyParams& params, const VgpuView& view) {
  auto policy = MakePolicy("sla-aware", params);
  Verdict verdict;
  EXPECT_EQ((*policy)->Decide({InstantFromNs(1), {&view, 1}}, {&verdict, 1}), kNever) << "agents pace by themselves";
  return verdict;
}

TEST(SlaAware, PacesByThePromiseAndNeverGates) {
  const Verdict verdict = Decide({}, {.id = VgpuId{1}, .promised = milliseconds(20), .attached = true});
  EXPECT_EQ(verdict.frame_interval, milliseconds(20));
  EXPECT_EQ(verdict.admission, Admission::kOpen);
  EXPECT_EQ(verdict.sync, FrameSync::kAuto);
}

TEST(SlaAware, AVgpuWithoutAPromiseRunsAtThePresetRate) {
  EXPECT_EQ(Decide({}, {.id = VgpuId{1}}).frame_interval, FromSeconds(1.0 / 30)) << "VGRIS's 30 frames/s";
  EXPECT_EQ(Decide({{"fps", 50.0}}, {.id = VgpuId{1}}).frame_interval, milliseconds(20));
  EXPECT_EQ(Decide({{"fps", 0.0}}, {.id = VgpuId{1}}).frame_interval, Duration{0});
}

TEST(SlaAware, AComputingVgpuIsPacedOnlyByItsPromise) {
  EXPECT_EQ(Decide({}, {.id = VgpuId{1}, .draws = false}).frame_interval, Duration{0});
  EXPECT_EQ(Decide({}, {.id = VgpuId{1}, .promised = milliseconds(20), .draws = false}).frame_interval,
            milliseconds(20));
}

TEST(SlaAware, PublishesTheSynchronisation) {
  for (std::size_t i = 0; i < kFrameSyncNames.size(); ++i)
    EXPECT_EQ(Decide({{"sync", static_cast<double>(i)}}, {.id = VgpuId{1}}).sync, static_cast<FrameSync>(i));
}

}  // namespace
}  // namespace weir::core
