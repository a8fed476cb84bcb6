// SPDX-License-Identifier: Apache-2.0
#include "modules/launch_loads.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::modules {
namespace {

constexpr core::Loads kUnit{32, 10'000, 1'024, 8};

core::Loads LoadsOfOne(const Launch& launch, Duration run = seconds(1)) {
  LaunchLoads loads(kUnit);
  loads.Add(launch);
  return loads.Over(run).loads;
}

TEST(LaunchLoads, AreAveragesOverTheRunsTime) {
  LaunchLoads loads(kUnit);
  // Half a second of four groups of 64, each with 2 KiB; a quarter of one group of 256; 3 MB of arguments each.
  loads.Add({.groups = 4,
             .group_items = 64,
             .local_bytes = 2'048,
             .argument_bytes = 3'000'000,
             .on_device = milliseconds(500)});
  loads.Add({.groups = 1, .group_items = 256, .argument_bytes = 3'000'000, .on_device = milliseconds(250)});
  const MeasuredLoads measured = loads.Over(seconds(1));
  EXPECT_EQ(measured.loads, (core::Loads{4, 6, 192, 2}));
  EXPECT_EQ(measured.launches, 2U);
  EXPECT_EQ(measured.device_ns, 750'000'000U);
  EXPECT_EQ(loads.Over(seconds(2)).loads, (core::Loads{2, 3, 96, 1}));
}

TEST(LaunchLoads, NoMoreIsResidentThanTheDeviceHolds) {
  const Launch many{.groups = 1'000, .group_items = 64, .on_device = seconds(1)};
  EXPECT_EQ(LoadsOfOne(many), (core::Loads{0, 0, 512, 8}));
  Launch wide = many;
  wide.group_items = 512;  // two groups use all threads
  EXPECT_EQ(LoadsOfOne(wide), (core::Loads{0, 0, 1'024, 2}));
  wide.group_items = 4'096;  // one group always runs, however large it is
  EXPECT_EQ(LoadsOfOne(wide), (core::Loads{0, 0, 1'024, 1}));
  wide.on_device = milliseconds(500);
  EXPECT_EQ(LoadsOfOne(wide), (core::Loads{0, 0, 512, 1}));
  Launch local = many;
  local.local_bytes = 10 * 1'024;  // three groups use all local memory
  EXPECT_EQ(LoadsOfOne(local), (core::Loads{30, 0, 192, 3}));
}

TEST(LaunchLoads, AnyLoadCountsAsAtLeastOne) {
  EXPECT_EQ(LoadsOfOne({.groups = 1, .group_items = 1, .argument_bytes = 4, .on_device = microseconds(1)}),
            (core::Loads{0, 1, 1, 1}));
  EXPECT_EQ(LaunchLoads(kUnit).Over(seconds(1)), MeasuredLoads{});
  EXPECT_EQ(LoadsOfOne({.groups = 1, .group_items = 1, .on_device = seconds(1)}, Duration{0}), core::Loads{});
}

RC_GTEST_PROP(LaunchLoads, AreNeverMoreThanTheDeviceHas, ()) {
  LaunchLoads loads(kUnit);
  const auto count = *rc::gen::inRange(1, 20);
  for (int i = 0; i < count; ++i)
    loads.Add({.groups = *rc::gen::inRange<std::uint64_t>(1, 1'000'000),
               .group_items = *rc::gen::inRange<std::uint64_t>(1, 100'000),
               .local_bytes = *rc::gen::inRange<std::uint64_t>(0, 1 << 20),
               .argument_bytes = *rc::gen::arbitrary<std::uint64_t>() >> 8,
               .on_device = milliseconds(*rc::gen::inRange(0, 1'000))});
  const MeasuredLoads measured = loads.Over(milliseconds(*rc::gen::inRange(1, 1'000)));
  for (const std::size_t kind : {0, 2, 3}) RC_ASSERT(measured.loads[kind] <= kUnit[kind]);
  RC_ASSERT(measured.loads[1] <= core::kLoadMax);
  RC_ASSERT(measured.launches == static_cast<std::uint64_t>(count));
}

}  // namespace
}  // namespace weir::modules
