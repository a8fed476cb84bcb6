// SPDX-License-Identifier: Apache-2.0
// Charges by the driver's account.
#include <gtest/gtest.h>

#include "tests/harness/model_node.h"

namespace weir {
namespace {

using testing::ModelNode;

Duration Charged(ModelNode& node, VgpuId vgpu) { return node.engine().Vgpu(node.now(), vgpu)->gpu_total; }

TEST(DeviceUse, AVgpuIsChargedByItsProcessesCounters) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {});
  ASSERT_TRUE(node.Do(engine::SeeDeviceUse{}));
  for (int i = 1; i <= 10; ++i) {
    node.RunFor(milliseconds(100));
    const core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = milliseconds(7) * i};
    const Duration before = Charged(node, vgpu);
    ASSERT_TRUE(node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&counter, 1}}}));
    if (i == 1) continue;  // GPU time reported before the first reading is not corrected
    EXPECT_NE(Charged(node, vgpu), before);
  }
  const Duration ten = Charged(node, vgpu);
  node.RunFor(milliseconds(100));
  const core::UseCounter last{.vgpu = vgpu, .process = process, .key = 1, .total = milliseconds(77)};
  ASSERT_TRUE(node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&last, 1}}}));
  EXPECT_EQ(Charged(node, vgpu) - ten, milliseconds(7));
}

TEST(DeviceUse, FramesAreScaledByWhatTheAccountChargedForReports) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {});
  EXPECT_EQ(node.engine().ReportScale(vgpu), 1.0);
  Duration counted{};
  for (int i = 1; i <= 50; ++i) {
    const Duration before = Charged(node, vgpu);
    node.RunFor(milliseconds(100));
    counted += (Charged(node, vgpu) - before) / 4;
    const core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = counted};
    ASSERT_TRUE(node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&counter, 1}}}));
  }
  EXPECT_NEAR(node.engine().ReportScale(vgpu), 0.25, 0.01);
}

TEST(DeviceUse, AProcessThatEndsWithoutALastValueIsChargedWhatItReported) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {});
  core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = milliseconds(1)};
  ASSERT_TRUE(node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&counter, 1}}}));
  node.RunFor(milliseconds(100));
  node.EndProcess(process);
  const Duration before = Charged(node, vgpu);
  ASSERT_TRUE(node.Do(engine::SeeDeviceUse{}));
  EXPECT_EQ(Charged(node, vgpu), before);
}

TEST(DeviceUse, AnUnknownDeviceIsAnError) {
  ModelNode node;
  EXPECT_FALSE(node.Do(engine::SeeDeviceUse{"none", {}}));
}

}  // namespace
}  // namespace weir
