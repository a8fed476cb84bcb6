// SPDX-License-Identifier: Apache-2.0
// Charges by the driver's account.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/model_node.h"

namespace weir {
namespace {

using testing::ModelNode;

Duration Charged(ModelNode& node, VgpuId vgpu) { return node.engine().Vgpu(node.now(), vgpu)->gpu_total; }

TEST(DeviceUse, AVgpuIsChargedByItsProcessesCounters) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {.gpu = milliseconds(5), .jitter = 0});
  ASSERT_TRUE(node.Do(engine::SeeDeviceUse{}));
  node.RunFor(milliseconds(100));
  const Duration first = Charged(node, vgpu);  // GPU time reported before the first reading is not corrected
  const auto count = [&](Duration total) {
    const core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = total};
    return node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&counter, 1}}});
  };
  for (int i = 1; i <= 10; ++i) {
    node.RunFor(milliseconds(100));
    ASSERT_TRUE(count(milliseconds(7) * i));
    // A frame may be in flight, of which the account has counted only a part.
    EXPECT_GE(Charged(node, vgpu), milliseconds(7) * i);
    EXPECT_LE(Charged(node, vgpu), milliseconds(7) * i + milliseconds(5));
  }
  EXPECT_GT(first, milliseconds(0));
  node.RunFor(milliseconds(100));
  node.EndProcess(process);
  ASSERT_TRUE(count(milliseconds(77)));
  EXPECT_EQ(Charged(node, vgpu), milliseconds(77));
}

// Four frames of 40 ms share the device, so each is in flight while two readings come. On average half of their work is
// still to be done.
TEST(DeviceUse, WorkThatWaitsForTheDeviceStaysCharged) {
  constexpr int kTimes = 200;
  ModelNode node;
  node.SetPolicy("proportional-share");
  node.MeterSpans();
  const VgpuId vgpu = node.AddVgpu("a", {});
  for (int i = 0; i < 4; ++i) node.AddProcess(vgpu, {.think = microseconds(100), .gpu = milliseconds(40)});
  node.RunFor(seconds(5));
  Duration beyond{};
  for (int i = 0; i < kTimes; ++i) {
    node.RunFor(milliseconds(37));
    const Duration ahead = Charged(node, vgpu) - node.Used(vgpu);
    EXPECT_GE(ahead, milliseconds(-100)) << "use is charged within a reading";
    EXPECT_LE(ahead, milliseconds(4 * 48 + 100)) << "no more than what is in flight, and what one reading corrects";
    beyond += ahead;
  }
  EXPECT_GT(beyond / kTimes, milliseconds(40));
}

TEST(DeviceUse, WhatTheLastReadingChargedIsKnownWithItsTime) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {});
  EXPECT_EQ(node.engine().Vgpu(node.now(), vgpu)->settled_at, Instant{});
  Instant read{};
  for (int i = 0; i < 3; ++i) {
    node.RunFor(milliseconds(100));
    const core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = milliseconds(7) * i};
    read = node.now();
    ASSERT_TRUE(node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&counter, 1}}}));
  }
  const Duration settled = node.engine().Vgpu(node.now(), vgpu)->settled;
  EXPECT_LE(settled, Charged(node, vgpu)) << "a frame may be in flight";
  node.RunFor(milliseconds(50));
  EXPECT_GT(Charged(node, vgpu), settled) << "the process reports more";
  EXPECT_EQ(node.engine().Vgpu(node.now(), vgpu)->settled, settled);
  EXPECT_EQ(node.engine().Vgpu(node.now(), vgpu)->settled_at, read);
}

TEST(DeviceUse, FramesAreScaledByWhatTheAccountChargedForReports) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {});
  EXPECT_EQ(node.engine().ReportScale(vgpu), 1.0);
  for (int i = 1; i <= 50; ++i) {
    node.RunFor(milliseconds(100));
    const core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = node.Used(vgpu) / 4};
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

// A tenant whose processes report too much gets a small scale. That scale must not make short-lived processes cheap.
TEST(DeviceUse, AProcessThatEndsWithoutALastValueIsChargedWithoutTheScale) {
  ModelNode node;
  const VgpuId vgpu = node.AddVgpu("a", {});
  const ProcessId process = node.AddProcess(vgpu, {});
  for (int i = 1; i <= 30; ++i) {
    node.RunFor(milliseconds(100));
    const core::UseCounter counter{.vgpu = vgpu, .process = process, .key = 1, .total = node.Used(vgpu) / 20};
    ASSERT_TRUE(node.Do(engine::SeeDeviceUse{"", {.busy = {}, .counters = {&counter, 1}}}));
  }
  ASSERT_LT(node.engine().ReportScale(vgpu), 0.1);
  const Duration settled = node.engine().Vgpu(node.now(), vgpu)->settled;
  const Duration used = node.Used(vgpu);
  node.RunFor(milliseconds(50));
  node.EndProcess(process);
  ASSERT_TRUE(node.Do(engine::SeeDeviceUse{}));
  EXPECT_GE(Charged(node, vgpu) - settled, node.Used(vgpu) - used - milliseconds(6)) << "a frame was in flight";
}

// Prometheus takes a counter that falls for one of a new process. Processes report spans here, which include the turns
// of others, so that many readings lower the charge.
TEST(DeviceUse, TheHighestChargeNeverFallsAlsoAfterAVgpuIsRemoved) {
  ModelNode node;
  node.SetPolicy("proportional-share");
  node.MeterSpans();
  const VgpuId vgpu = node.AddVgpu("a", {}), other = node.AddVgpu("b", {});
  for (const VgpuId id : {vgpu, other, other})
    node.AddProcess(id, {.think = microseconds(100), .gpu = milliseconds(id == vgpu ? 20 : 7)});
  const auto status = [&](VgpuId id) { return *node.engine().Vgpu(node.now(), id); };
  const auto device = [&] { return node.engine().Devices(node.now()).front(); };
  Duration most{}, device_most{}, total{};
  int falls = 0;
  for (int i = 0; i < 500 || status(vgpu).gpu_total == most; ++i) {
    ASSERT_LT(i, 5'000) << "no reading lowers the charge";
    node.RunFor(milliseconds(7));
    falls += status(vgpu).gpu_total < total ? 1 : 0;
    total = status(vgpu).gpu_total;
    ASSERT_GE(status(vgpu).gpu_most, std::max(most, total));
    ASSERT_LE(status(vgpu).gpu_most, total + milliseconds(100)) << "it is ahead by what a reading corrects, no more";
    ASSERT_EQ(device().gpu_most, status(vgpu).gpu_most + status(other).gpu_most);
    ASSERT_GE(device().gpu_most, device_most);
    most = status(vgpu).gpu_most;
    device_most = device().gpu_most;
  }
  EXPECT_GT(falls, 5);
  ASSERT_TRUE(node.Do(engine::RemoveVgpu{vgpu}));
  EXPECT_EQ(device().gpu_most, device_most);
  EXPECT_LE(device().gpu_total, device_most - (most - total)) << "the charge itself stays corrected";
}

TEST(DeviceUse, AnUnknownDeviceIsAnError) {
  ModelNode node;
  EXPECT_FALSE(node.Do(engine::SeeDeviceUse{"none", {}}));
}

}  // namespace
}  // namespace weir
