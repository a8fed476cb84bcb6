// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_clock.h"

#include <gtest/gtest.h>

namespace weir::shim {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kWrap36 = std::uint64_t{1} << 36;

TEST(DeviceClock, EachMomentIsChargedOnceInTheDevicesTicks) {
  DeviceClock clock({.bits = 64, .ns = 10});
  EXPECT_EQ(clock.Charge(1000, 1100, 0, kSecondNs), 1000);
  EXPECT_EQ(clock.Charge(1050, 1150, 0, kSecondNs), 500);
  EXPECT_EQ(clock.Charge(900, 1150, 0, kSecondNs), 1000) << "what is known late";
  EXPECT_EQ(clock.Charge(2000, 2000, 0, kSecondNs), 0);
  EXPECT_EQ(clock.Charge(3000, 2500, 0, kSecondNs), 0);
}

TEST(DeviceClock, WhatFollowsASpanIsChargedWithItAndNotAgain) {
  DeviceClock clock({.bits = 64, .ns = 1});
  EXPECT_EQ(clock.Charge(100, 200, 300, kSecondNs), 400);
  EXPECT_EQ(clock.Charge(450, 600, 0, kSecondNs), 100);
}

TEST(DeviceClock, ACounterOfAllItsBitsIsToldFromOneThatRanBackwards) {
  const std::uint64_t last = ~std::uint64_t{0};
  DeviceClock clock({.bits = 64, .ns = 1});
  EXPECT_EQ(clock.Charge(last - 99, last, 0, kSecondNs), 99);
  EXPECT_EQ(clock.Charge(last - 9, 90, 0, kSecondNs), 91);
}

TEST(DeviceClock, AWrapOfTheCounterLosesNoTime) {
  DeviceClock clock({.bits = 36, .ns = 1});
  const std::uint64_t step = kWrap36 / 100;
  std::int64_t charged = 0, now_ns = kSecondNs;
  for (std::uint64_t at = 0; at < 500; ++at) {
    now_ns += static_cast<std::int64_t>(step);
    charged += clock.Charge(at * step % kWrap36, (at * step + step / 2) % kWrap36, 0, now_ns);
  }
  EXPECT_EQ(charged, static_cast<std::int64_t>(500 * (step / 2)));
}

TEST(DeviceClock, WorkAfterALongIdleTimeIsCharged) {
  for (int eighths = 1; eighths < 24; ++eighths) {
    SCOPED_TRACE(eighths);
    DeviceClock clock({.bits = 36, .ns = 1});
    const std::uint64_t idle = kWrap36 / 8 * static_cast<std::uint64_t>(eighths);
    EXPECT_EQ(clock.Charge(1000, 2000, 0, kSecondNs), 1000);
    const std::int64_t later_ns = kSecondNs + static_cast<std::int64_t>(idle);
    EXPECT_EQ(clock.Charge((3000 + idle) % kWrap36, (4000 + idle) % kWrap36, 0, later_ns), 1000);
    EXPECT_EQ(clock.Charge((3500 + idle) % kWrap36, (4100 + idle) % kWrap36, 0, later_ns), 100);
  }
}

// Some drivers' counters begin again when the machine has been suspended.
TEST(DeviceClock, ACounterThatBeginsAgainIsCharged) {
  DeviceClock clock({.bits = 64, .ns = 1});
  const std::uint64_t before = 3600 * std::uint64_t{kSecondNs};
  for (std::uint64_t i = 0; i < 3000; ++i) clock.Charge(before + 10 * i, before + 10 * i + 5, 0, kSecondNs);
  EXPECT_EQ(clock.Charge(1000, 2000, 0, kSecondNs), 1000);
  EXPECT_EQ(clock.Charge(2000, 3000, 0, kSecondNs), 1000);
}

TEST(DeviceClock, IsOneForEachPhysicalDeviceInUse) {
  const PhysicalDevice one{.uuid = {1}}, two{.uuid = {2}}, unnamed{.handle = 1};
  DeviceClock* const first = DeviceClock::Of(one, {});
  EXPECT_EQ(DeviceClock::Of(one, {}), first);
  EXPECT_EQ(DeviceClock::InUse(), 1U);
  DeviceClock* const second = DeviceClock::Of(two, {});
  DeviceClock* const third = DeviceClock::Of(unnamed, {});
  EXPECT_EQ(DeviceClock::InUse(), 3U);
  second->Release();
  first->Release();
  EXPECT_EQ(DeviceClock::InUse(), 2U) << "another VkDevice uses the first one";
  first->Release();
  third->Release();
  EXPECT_EQ(DeviceClock::InUse(), 0U);
}

}  // namespace
}  // namespace weir::shim
