// SPDX-License-Identifier: Apache-2.0
// What the layer measures: timestamps around submits, and what is charged for them.
#include <gtest/gtest.h>

#include <thread>

#include "tests/shim/vulkan_layer_fixture.h"

namespace weir {
namespace {

TEST_F(VulkanLayer, TimestampsAreAroundASubmitAndNothingElseChanges) {
  AttachBySubmits();
  const int loader_data = fake_vulkan.loader_data;
  EXPECT_EQ(loader_data % 64, 0);
  EXPECT_GE(loader_data, 64) << "each of the layer's command buffers has the loader's data";
  Submit({0, 2, 1, 0});
  const auto& parts = fake_vulkan.parts;
  ASSERT_EQ(parts.size(), 4U);
  ASSERT_EQ(parts[1].buffers.size(), 3U);
  ASSERT_EQ(parts[2].buffers.size(), 2U);
  EXPECT_EQ(parts[0].buffers.size() + parts[3].buffers.size(), 0U);
  EXPECT_EQ((std::vector{parts[1].buffers[1], parts[1].buffers[2]}), (std::vector{theirs_[0], theirs_[1]}));
  EXPECT_EQ(parts[2].buffers[0], theirs_[0]);
  for (const auto& part : parts) EXPECT_EQ(part.waits * 10 + part.signals, &part == &parts[0] ? 21U : 1U);
}

TEST_F(VulkanLayer, APartThatWaitsHasTimestampsOfItsOwn) {
  AttachBySubmits();
  Submit({1, 2, 0, 1}, nullptr, VK_NULL_HANDLE, true);
  const auto& parts = fake_vulkan.parts;
  ASSERT_EQ(parts.size(), 4U);
  const std::size_t sizes[] = {3, 4, 0, 3};
  for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(parts[i].buffers.size(), sizes[i]) << i;
  EXPECT_EQ((std::vector{parts[1].buffers[1], parts[1].buffers[2]}), (std::vector{theirs_[0], theirs_[1]}));
  ChargedBy(2);
  fake_vulkan.ticks_of_submit = 2000;
  fake_vulkan.ticks_of_wait = 10'000;
  Submit({1, 1, 0, 1}, nullptr, VK_NULL_HANDLE, true);
  fake_vulkan.ticks_of_wait = 0;
  const std::int64_t gpu_ns = ChargedBy(3);
  // The first part's wait is before the span. Parts of the batches above are charged, too.
  EXPECT_GE(gpu_ns, 3 * 2'000'000);
  EXPECT_LE(gpu_ns, 3 * 2'000'000 + 100'000);
}

TEST_F(VulkanLayer, WhatTheDeviceTookIsCharged) {
  AttachBySubmits();
  fake_vulkan.ticks_of_submit = 2000;  // 2 ms
  std::int64_t gpu_ns = 0;
  for (int i = 0; i < 40; ++i) {                   // more than the timer's slots
    std::this_thread::sleep_for(milliseconds(3));  // the wall clock does not contradict it
    Submit({1});
    for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
  }
  std::this_thread::sleep_for(milliseconds(1));
  Submit({1});
  for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
  fake_vulkan.ticks_of_submit = 10;
  // What was submitted last is known with the next one.
  EXPECT_GE(gpu_ns, 39 * 2'000'000);
  EXPECT_LE(gpu_ns, 41 * 2'000'000);
}

/// A query keeps its result until the device resets it, which may be long after the next submit with that query.
TEST_F(VulkanLayer, AResultOfAnEarlierSubmitIsNotTakenForTheNext) {
  AttachBySubmits();
  std::int64_t gpu_ns = 0;
  const auto submit = [&] {
    std::this_thread::sleep_for(milliseconds(3));
    Submit({1});
    for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
  };
  for (int i = 0; i < 40; ++i) submit();  // each query has a result
  gpu_ns = 0;
  fake_vulkan.ticks_of_submit = 2000;
  fake_vulkan.stuck = true;
  for (int i = 0; i < 5; ++i) submit();
  EXPECT_LE(gpu_ns, 10'000) << "what ran before";
  testing::fake::GoOn();
  fake_vulkan.ticks_of_submit = 10;
  for (int i = 0; i < 3; ++i) submit();
  EXPECT_GE(gpu_ns, 5 * 2'000'000);
}

TEST_F(VulkanLayer, TimeInWhichTwoSubmitsRunIsChargedOnce) {
  AttachBySubmits();
  fake_vulkan.ticks_of_submit = 2000;
  fake_vulkan.stuck = true;
  for (int i = 0; i < 2; ++i) Submit({1});
  std::this_thread::sleep_for(milliseconds(5));
  testing::fake::GoOnTogether();  // one takes 2 ms, the other 4 ms
  host_.Drain();
  const std::int64_t gpu_ns = ChargedBy(3);
  EXPECT_GE(gpu_ns, 3'900'000);
  EXPECT_LE(gpu_ns, 4'100'000);
}

/// The two have one physical device, which the program found through two instances.
TEST_F(VulkanLayer, TimeInWhichTwoDevicesWorkIsChargedOnce) {
  const VkInstance other_instance = shared_.chain->MakeInstance();
  const VkDevice other = shared_.chain->MakeDevice(other_instance);
  const VkQueue other_queue = MakeQueue(other);
  AttachBySubmits();
  fake_vulkan.ticks_of_submit = 2000;
  fake_vulkan.stuck = true;
  Submit({1});
  Submit({1}, nullptr, other_queue);
  std::this_thread::sleep_for(milliseconds(5));
  testing::fake::GoOnTogether();
  fake_vulkan.ticks_of_submit = 10;
  host_.Drain();
  Submit({1}, nullptr, other_queue);  // reads what the other device did
  std::int64_t gpu_ns = ChargedBy(3);
  EXPECT_GE(gpu_ns, 3'900'000);
  EXPECT_LE(gpu_ns, 4'100'000);
  shared_.chain->Get<PFN_vkDestroyDevice>(other, "vkDestroyDevice")(other, nullptr);
  shared_.chain->Get<PFN_vkDestroyInstance>(other_instance, "vkDestroyInstance")(other_instance, nullptr);
}

TEST_F(VulkanLayer, ALongSubmitBesideShortOnesOfAnotherQueueIsCharged) {
  AttachBySubmits();
  const VkQueue other = MakeQueue(device_);
  ChargedBy(2);
  fake_vulkan.slow = true;
  Submit({1});
  fake_vulkan.slow = false;
  fake_vulkan.ticks_of_submit = 5;
  std::int64_t gpu_ns = 0;
  for (int i = 0; i < 40; ++i) {
    fake_vulkan.clock += 995;
    Submit({1}, nullptr, other);
  }
  std::this_thread::sleep_for(milliseconds(40));
  testing::fake::GoOn();
  for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
  gpu_ns += ChargedBy(3);
  EXPECT_GE(gpu_ns, 40'000'000 - 100'000);
  EXPECT_LE(gpu_ns, 40'000'000 + 100'000);
}

TEST_F(VulkanLayer, SubmitsBeyondThoseThatMayBeUnderWayAreChargedTheMean) {
  AttachBySubmits();
  ChargedBy(2);
  constexpr int kSubmits = 1500;
  fake_vulkan.ticks_of_submit = 20;
  fake_vulkan.stuck = true;
  std::int64_t gpu_ns = 0;
  for (int i = 0; i < kSubmits; ++i) Submit({1});
  EXPECT_EQ(fake_vulkan.parts[0].buffers.size(), 1U);
  std::this_thread::sleep_for(milliseconds(30));
  testing::fake::GoOn();
  for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
  gpu_ns += ChargedBy(3);
  EXPECT_GE(gpu_ns, kSubmits * 20'000 / 100 * 98);
  EXPECT_LE(gpu_ns, kSubmits * 20'000 / 100 * 102);
}

TEST_F(VulkanLayer, WhatADestroyedDeviceHasNotReportedIsNotAwaited) {
  AttachBySubmits();
  ChargedBy(3);
  BatchesOf([this] { WaitForFences(); });
  EXPECT_EQ(host_.ReservedNs(), 0);
  const VkDevice other = shared_.chain->MakeDevice(shared_.instance);
  const VkQueue other_queue = MakeQueue(other);
  fake_vulkan.stuck = true;  // the device is lost
  BatchesOf([&] { Submit({1}, nullptr, other_queue); });
  fake_vulkan.stuck = false;
  fake_vulkan.queued.clear();
  BatchesOf([this] { WaitForFences(); });
  BatchesOf([this] { Submit({1}); });
  EXPECT_GT(host_.ReservedNs(), 0);
  shared_.chain->Get<PFN_vkDestroyDevice>(other, "vkDestroyDevice")(other, nullptr);
  BatchesOf([this] { WaitForFences(); });
  EXPECT_EQ(host_.ReservedNs(), 0);
}

TEST_F(VulkanLayer, ARefusedSubmitLeavesTheTimerInOrder) {
  AttachBySubmits();
  for (int i = 0; i < 100; ++i) {
    fake_vulkan.result = VK_ERROR_OUT_OF_HOST_MEMORY;
    Submit({1});
  }
  fake_vulkan.result = VK_SUCCESS;
  Submit({1});
  EXPECT_EQ(fake_vulkan.parts[0].buffers.size(), 3U) << "a pair of timestamps is still free";
}

TEST_F(VulkanLayer, ASubmitToADeviceGroupIsPassedOnAsItIs) {
  AttachBySubmits();
  VkDeviceGroupSubmitInfo group{};
  group.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO;
  Submit({2}, &group);
  EXPECT_EQ(fake_vulkan.parts[0].buffers.size(), 2U);
}

TEST_F(VulkanLayer, AQueueWithoutTimestampsIsServedWithoutThem) {
  AttachBySubmits();
  EXPECT_EQ(Submit({1}, nullptr, MakeQueue(device_, 1)), VK_SUCCESS);
  EXPECT_EQ(fake_vulkan.parts[0].buffers.size(), 1U);
}

TEST_F(VulkanLayer, WhatItMadeEndsWithTheDevice) {
  AttachBySubmits();
  const int pools = fake_vulkan.pools, queries = fake_vulkan.query_pools;
  const VkDevice other = shared_.chain->MakeDevice(shared_.instance);
  Submit({1}, nullptr, MakeQueue(other));
  EXPECT_EQ(fake_vulkan.pools, pools + 1);
  shared_.chain->Get<PFN_vkDestroyDevice>(other, "vkDestroyDevice")(other, nullptr);
  EXPECT_EQ(fake_vulkan.pools, pools);
  EXPECT_EQ(fake_vulkan.query_pools, queries);
}

}  // namespace
}  // namespace weir
