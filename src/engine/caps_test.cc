// SPDX-License-Identifier: Apache-2.0
// The policy `cap` on a modelled node: a cap holds for frames of any length and for any number of processes.
#include <gtest/gtest.h>

#include "tests/harness/model_node.h"

namespace weir {
namespace {

using testing::ModelNode;

engine::VgpuSettings Capped(double cap) { return {.cap = Share::FromFraction(cap)}; }

struct Case {
  Duration kernel;
  int processes;
};

double UseUnder(const std::string& policy, double cap, const Case& c) {
  ModelNode node;
  node.SetPolicy(policy);
  const VgpuId vgpu = node.AddVgpu("a", Capped(cap));
  for (int i = 0; i < c.processes; ++i)
    node.AddProcess(vgpu, {.think = microseconds(100), .gpu = c.kernel, .jitter = 0.1});
  node.RunFor(seconds(2));
  auto before = node.Snapshot();
  node.RunFor(std::max<Duration>(
      seconds(10), Duration{static_cast<std::int64_t>(25.0 * static_cast<double>(c.kernel.count()) / cap)}));
  return node.UseSince(before, vgpu);
}

TEST(Cap, HoldsForKernelsOfAnyLengthAndForSeveralProcesses) {
  for (const double cap : {0.1, 0.3, 0.7})
    for (const Duration kernel : {milliseconds(1), milliseconds(50), milliseconds(500)})
      for (const int processes : {1, 4})
        EXPECT_NEAR(UseUnder("cap", cap, {kernel, processes}), cap, 0.02)
            << cap << ", " << MillisecondsOf(kernel) << " ms, " << processes << " processes";
}

// Long kernels of others stand in its way; that its slice is kept meanwhile: core/schedule/time_slices_test.cc.
TEST(Cap, IsReachedBesideSomebodyWhoseKernelsAreLong) {
  ModelNode node;
  node.SetPolicy("cap");
  const VgpuId small = node.AddVgpu("small", Capped(0.2)), large = node.AddVgpu("large", Capped(0.6));
  for (const VgpuId vgpu : {small, large})
    node.AddProcess(vgpu, {.think = microseconds(100), .gpu = milliseconds(500), .jitter = 0.1});
  node.RunFor(seconds(3));
  auto before = node.Snapshot();
  node.RunFor(seconds(60));
  EXPECT_NEAR(node.UseSince(before, small), 0.2, 0.02);
  EXPECT_NEAR(node.UseSince(before, large), 0.6, 0.02);
}

// gOver, Algorithm 2, line 6 forgives what was overdrawn: ours is not the letter for this reason.
TEST(CapPaper, ForgivesTheDebtOfALongKernel) {
  EXPECT_NEAR(UseUnder("cap-paper", 0.1, {milliseconds(1), 1}), 0.1, 0.02);
  EXPECT_GT(UseUnder("cap-paper", 0.1, {milliseconds(500), 1}), 0.4);
}

TEST(Cap, WhatAStageLeavesIsKeptForThePeriodAndNoLonger) {
  ModelNode node;
  node.SetPolicy("cap");
  const VgpuId vgpu = node.AddVgpu("a", Capped(0.2));
  const ProcessId first = node.AddProcess(vgpu, {.gpu = milliseconds(5)});
  node.RunFor(seconds(1));
  node.EndProcess(first);
  node.RunFor(milliseconds(30'500));
  auto before = node.Snapshot();
  node.AddProcess(vgpu, {.gpu = milliseconds(5)});
  node.RunFor(milliseconds(500));
  EXPECT_LE(node.UseSince(before, vgpu), 0.43);  // a second's worth in half a second, not thirty
}

TEST(Cap, ThoseWithTimeLeftShareByTheirCaps) {
  ModelNode node;
  node.SetPolicy("cap");
  const VgpuId a = node.AddVgpu("a", Capped(0.9)), b = node.AddVgpu("b", Capped(0.45));
  node.AddProcess(a, {.think = microseconds(100), .gpu = milliseconds(4)});
  node.AddProcess(b, {.think = microseconds(100), .gpu = milliseconds(2)});
  node.RunFor(seconds(2));
  auto before = node.Snapshot();
  node.RunFor(seconds(10));
  EXPECT_NEAR(node.ShareSince(before, a), 2.0 / 3, 0.02);
  EXPECT_GT(node.DeviceUseSince(before), 0.95);
}

}  // namespace
}  // namespace weir
