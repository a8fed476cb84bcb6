// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/costs.h"

#include <gtest/gtest.h>

#include "core/device/device_model.h"

namespace weir::emulator::cl {
namespace {

const std::vector<KernelCost> kKernels{
    {.name = "churn", .fixed = microseconds(5), .per_item_ns = 0.5, .units = 4, .computed = false},
    {.name = "chu*", .fixed = std::nullopt, .units = 2},
};

TEST(ClCosts, TheFirstEntryThatMatchesCounts) {
  const KernelWork churn = WorkOf(kKernels, 3, "churn", 1001);
  EXPECT_EQ(churn.work.cost, Work::Cost::kKnown);
  EXPECT_EQ(churn.work.time, nanoseconds(5501));  // 5500.5, rounded
  EXPECT_EQ(churn.work.units, 4U);
  EXPECT_FALSE(churn.computed);
}

TEST(ClCosts, AnEntryWithoutATimeIsMeasured) {
  const KernelWork chunk = WorkOf(kKernels, 3, "chunk", 1000);
  EXPECT_EQ(chunk.work.cost, Work::Cost::kMeasured);
  EXPECT_EQ(chunk.work.factor, 3);
  EXPECT_EQ(chunk.work.units, 2U);
  EXPECT_TRUE(chunk.computed);
}

TEST(ClCosts, AKernelThatNoEntryNamesIsMeasured) {
  EXPECT_EQ(WorkOf(kKernels, 0.5, "other", 1).work.cost, Work::Cost::kMeasured);
  EXPECT_EQ(WorkOf({}, 0.5, "churn", 1).work.factor, 0.5);
}

TEST(ClCosts, ACostIsNeverMoreThanTheModelTakes) {
  EXPECT_EQ(WorkOf(kKernels, 1, "churn", ~0ULL).work.time, core::DeviceModel::kWorkMax);
}

}  // namespace
}  // namespace weir::emulator::cl
