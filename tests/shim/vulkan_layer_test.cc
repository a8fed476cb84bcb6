// SPDX-License-Identifier: Apache-2.0
// The layer as it is installed, between a fake loader and a fake driver. The shim reads its environment once, so all
// tests share one gate, and a test that needs batches waits until the presents of the one before are forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "platform/clock.h"
#include "tests/harness/child.h"
#include "tests/harness/fake_vulkan.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir {
namespace {

using testing::fake_vulkan;
using testing::GateHost;
using testing::WaitUntil;

constexpr std::uint64_t kForever = UINT64_MAX;

/// One gate, one chain: the layer opens the shim once in a process.
struct Shared {
  Shared() : host(folder / "v") {
    ::setenv("WEIR_ATTACH", (folder / "v").c_str(), 1);
    ::unsetenv("WEIR_METER");
    chain = std::make_unique<testing::VulkanChain>(WEIR_VULKAN_LAYER);
    instance = chain->MakeInstance();
  }
  testing::TempFolder folder;
  GateHost host;
  std::unique_ptr<testing::VulkanChain> chain;
  VkInstance instance = VK_NULL_HANDLE;
};

class VulkanLayer : public ::testing::Test {
 protected:
  VulkanLayer() : shared_(Once()), host_(shared_.host) {
    fake_vulkan.result = VK_SUCCESS;
    fake_vulkan.withholds = fake_vulkan.has_release = false;
    device_ = shared_.chain->MakeDevice(shared_.instance);
    queue_ = MakeQueue(device_);
    host_.Drain();
  }
  ~VulkanLayer() override { Call<PFN_vkDestroyDevice>("vkDestroyDevice")(device_, nullptr); }
  static Shared& Once() {
    static Shared shared;
    return shared;
  }

  template <typename Function>
  Function Call(const char* name) {
    return shared_.chain->Get<Function>(device_, name);
  }
  VkQueue MakeQueue(VkDevice device, std::uint32_t family = 0) {
    VkQueue queue = VK_NULL_HANDLE;
    shared_.chain->Get<PFN_vkGetDeviceQueue>(device, "vkGetDeviceQueue")(device, family, 0, &queue);
    return queue;
  }
  VkSwapchainKHR MakeSwapchain(std::uint64_t surface) {
    VkSwapchainCreateInfoKHR info{};
    info.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR;
    info.surface = (VkSurfaceKHR)surface;  // NOLINT: a pointer or a number
    VkSwapchainKHR swapchain = VK_NULL_HANDLE;
    EXPECT_EQ(Call<PFN_vkCreateSwapchainKHR>("vkCreateSwapchainKHR")(device_, &info, nullptr, &swapchain), VK_SUCCESS);
    return swapchain;
  }
  VkResult Present(const std::vector<VkSwapchainKHR>& swapchains, const void* chain = nullptr) {
    VkPresentInfoKHR info{};
    info.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR;
    info.pNext = chain;
    info.swapchainCount = static_cast<std::uint32_t>(swapchains.size());
    info.pSwapchains = swapchains.data();
    return Call<PFN_vkQueuePresentKHR>("vkQueuePresentKHR")(queue_, &info);
  }
  /// A submit with parts of so many command buffers each.
  VkResult Submit(std::vector<std::uint32_t> parts, const void* chain = nullptr, VkQueue queue = VK_NULL_HANDLE) {
    std::vector<VkSubmitInfo> infos;
    for (const std::uint32_t buffers : parts) {
      VkSubmitInfo info{};
      info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
      info.pNext = chain;
      info.commandBufferCount = buffers;
      info.pCommandBuffers = theirs_.data();
      info.waitSemaphoreCount = 2;
      info.signalSemaphoreCount = 1;
      infos.push_back(info);
    }
    return Call<PFN_vkQueueSubmit>("vkQueueSubmit")(queue != VK_NULL_HANDLE ? queue : queue_,
                                                    static_cast<std::uint32_t>(infos.size()), infos.data(),
                                                    VK_NULL_HANDLE);
  }
  void Attach() {
    const VkSwapchainKHR swapchain = MakeSwapchain(0xA77AC4);
    EXPECT_TRUE(WaitUntil([&] {
      Present({swapchain});
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }
  /// Until submits pass the gate: a process that presents passes it with its presents.
  void AttachBySubmits() {
    EXPECT_TRUE(WaitUntil([this] {
      Submit({1});
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }
  template <typename Function>
  std::size_t BatchesOf(Function call) {
    std::this_thread::sleep_for(milliseconds(1));  // longer than the shortest batch
    call();
    return host_.Drain().frames.size();
  }

  Shared& shared_;
  GateHost& host_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::array<VkCommandBuffer, 4> theirs_{
      testing::fake::MakeHandle<VkCommandBuffer>(nullptr, 0), testing::fake::MakeHandle<VkCommandBuffer>(nullptr, 0),
      testing::fake::MakeHandle<VkCommandBuffer>(nullptr, 0), testing::fake::MakeHandle<VkCommandBuffer>(nullptr, 0)};
};

TEST_F(VulkanLayer, NextFunctionsAreLookedUpWhileTheDeviceIsCreated) {
  EXPECT_GT(fake_vulkan.lookups, 0);
  const int before = fake_vulkan.late_lookups;
  const auto present = Call<PFN_vkQueuePresentKHR>("vkQueuePresentKHR");
  EXPECT_EQ(fake_vulkan.late_lookups, before + 1) << "the program's own question";
  ASSERT_NE(present, nullptr);
  const VkSwapchainKHR swapchain = MakeSwapchain(1);
  const int asked = fake_vulkan.late_lookups;
  VkPresentInfoKHR info{};
  info.swapchainCount = 1;
  info.pSwapchains = &swapchain;
  present(queue_, &info);
  EXPECT_EQ(fake_vulkan.late_lookups, asked);
}

TEST_F(VulkanLayer, ItAnswersForItsOwnFunctionsThatTheDriverHas) {
  const auto get = [this](const char* name) { return Call<PFN_vkVoidFunction>(name); };
  EXPECT_NE(get("vkQueueSubmit"), testing::fake::DeviceFunction("vkQueueSubmit"));
  EXPECT_EQ(get("vkCmdDraw"), testing::fake::DeviceFunction("vkCmdDraw")) << "not the layer's";
  EXPECT_EQ(get("vkReleaseSwapchainImagesEXT"), nullptr) << "the driver lacks it";
  EXPECT_EQ(get("vkNoSuchFunction"), nullptr);
  const auto of_instance = [this](VkInstance instance, const char* name) {
    return shared_.chain->Get<PFN_vkVoidFunction>(instance, name);
  };
  EXPECT_EQ(of_instance(shared_.instance, "vkQueueSubmit"), get("vkQueueSubmit"));
  EXPECT_NE(of_instance(VK_NULL_HANDLE, "vkCreateDevice"), nullptr) << "a layer above it may ask without an instance";
}

TEST_F(VulkanLayer, EachWindowOfAPresentHasAFrame) {
  Attach();
  const std::vector<VkSwapchainKHR> both{MakeSwapchain(11), MakeSwapchain(12)};
  const int before = fake_vulkan.presents;
  Present(both);
  Present(both);
  EXPECT_EQ(fake_vulkan.presents - before, 2) << "the driver's present is called once";
  const auto drained = host_.Drain();
  ASSERT_EQ(drained.frames.size(), 4U);
  EXPECT_EQ(drained.bad, 0U);
  EXPECT_NE(drained.frames[0].surface, drained.frames[1].surface);
  EXPECT_EQ(host_.InFlight(), 0U);
}

TEST_F(VulkanLayer, ASwapchainThatReplacesAnotherContinuesItsWindow) {
  Attach();
  const VkSwapchainKHR old = MakeSwapchain(21);
  Present({old});
  const VkSwapchainKHR replaced = MakeSwapchain(21);
  Call<PFN_vkDestroySwapchainKHR>("vkDestroySwapchainKHR")(device_, old, nullptr);
  Present({replaced});
  Present({MakeSwapchain(22)});
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(frames[0].surface, frames[1].surface);
  EXPECT_EQ(frames[1].begin_ns, frames[0].end_ns);
  EXPECT_NE(frames[1].surface, frames[2].surface);
}

TEST_F(VulkanLayer, UnknownStructuresArePassedOn) {
  Attach();
  VkBaseInStructure unknown{};
  unknown.sType = static_cast<VkStructureType>(0x7000'0001);
  Present({MakeSwapchain(31)}, &unknown);
  EXPECT_EQ(fake_vulkan.present_chain, &unknown);
  Submit({1}, &unknown);
  ASSERT_EQ(fake_vulkan.parts.size(), 1U);
  EXPECT_EQ(fake_vulkan.parts[0].chain, &unknown);
}

TEST_F(VulkanLayer, AnyResultIsTheDrivers) {
  Attach();
  for (const VkResult result : {VK_ERROR_DEVICE_LOST, VK_ERROR_OUT_OF_DATE_KHR, VK_SUBOPTIMAL_KHR}) {
    fake_vulkan.result = result;
    EXPECT_EQ(Present({MakeSwapchain(41)}), result);
    EXPECT_EQ(Submit({1}), result);
    EXPECT_EQ(Call<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device_), result);
  }
  EXPECT_EQ(host_.InFlight(), 0U);
}

TEST_F(VulkanLayer, DevicesAndInstancesAreToldApart) {
  const VkInstance other_instance = shared_.chain->MakeInstance();
  const VkDevice other = shared_.chain->MakeDevice(other_instance);
  const VkQueue other_queue = MakeQueue(other);
  fake_vulkan.submitted_to.clear();
  for (const VkQueue queue : {queue_, other_queue, queue_}) Submit({1}, nullptr, queue);
  ASSERT_EQ(fake_vulkan.submitted_to.size(), 3U);
  EXPECT_EQ(fake_vulkan.submitted_to[0], fake_vulkan.submitted_to[2]);
  EXPECT_NE(fake_vulkan.submitted_to[0], fake_vulkan.submitted_to[1]);
  shared_.chain->Get<PFN_vkDestroyDevice>(other, "vkDestroyDevice")(other, nullptr);
  shared_.chain->Get<PFN_vkDestroyInstance>(other_instance, "vkDestroyInstance")(other_instance, nullptr);
  EXPECT_EQ(Submit({1}), VK_SUCCESS) << "the first ones are still known";
}

TEST_F(VulkanLayer, ManyDevicesAreKnownAtOnce) {
  std::vector<VkDevice> devices;
  for (int i = 0; i < 100; ++i) devices.push_back(shared_.chain->MakeDevice(shared_.instance));
  std::set<int> reached;
  for (const VkDevice device : devices) {
    Submit({1}, nullptr, MakeQueue(device));
    reached.insert(fake_vulkan.submitted_to.back());
  }
  EXPECT_EQ(reached.size(), 100U);
  for (const VkDevice device : devices)
    shared_.chain->Get<PFN_vkDestroyDevice>(device, "vkDestroyDevice")(device, nullptr);
}

TEST_F(VulkanLayer, EveryKindOfSubmitIsABatchOfAProgramThatPresentsNothing) {
  AttachBySubmits();
  EXPECT_EQ(BatchesOf([this] { Submit({1}); }), 1U);
  EXPECT_EQ(BatchesOf([this] { Submit({0}); }), 0U) << "semaphores alone are free";
  for (const char* name : {"vkQueueSubmit2", "vkQueueSubmit2KHR"}) {
    VkCommandBufferSubmitInfo buffer{};
    buffer.commandBuffer = theirs_[0];
    VkSubmitInfo2 info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    info.commandBufferInfoCount = 1;
    info.pCommandBufferInfos = &buffer;
    EXPECT_EQ(BatchesOf([&] { Call<PFN_vkQueueSubmit2>(name)(queue_, 1, &info, VK_NULL_HANDLE); }), 1U) << name;
  }
  VkBindSparseInfo bind{};
  const auto bind_it = [&] { Call<PFN_vkQueueBindSparse>("vkQueueBindSparse")(queue_, 1, &bind, VK_NULL_HANDLE); };
  EXPECT_EQ(BatchesOf(bind_it), 0U) << "it binds nothing";
  bind.bufferBindCount = 1;
  EXPECT_EQ(BatchesOf(bind_it), 1U);
}

TEST_F(VulkanLayer, AWaitThatFollowsASubmitIsInItsBatches) {
  AttachBySubmits();
  const auto wait = [this](std::uint64_t timeout) {
    return BatchesOf([&] { Call<PFN_vkWaitForFences>("vkWaitForFences")(device_, 0, nullptr, VK_TRUE, timeout); });
  };
  EXPECT_EQ(BatchesOf([this] { Submit({1}); }), 1U);
  EXPECT_EQ(wait(0), 0U) << "a question";
  EXPECT_EQ(wait(kForever), 1U);
  EXPECT_EQ(wait(kForever), 0U) << "nothing was submitted since: it may be for anything";
  EXPECT_EQ(BatchesOf([this] { Submit({1}); }), 1U);
  EXPECT_EQ(BatchesOf([this] { Call<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device_); }), 1U);
}

/// The shim waits at the gate only: with the gate open, a submit returns though no work has ended, and calls no wait.
TEST_F(VulkanLayer, NoWorkOfTheProgramIsWaitedFor) {
  AttachBySubmits();
  fake_vulkan.withholds = true;
  const int waits = fake_vulkan.waits + fake_vulkan.idles;
  for (int i = 0; i < 200; ++i) BatchesOf([this] { Submit({1}); });
  EXPECT_EQ(fake_vulkan.waits + fake_vulkan.idles, waits);
}

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
  for (const auto& part : parts) EXPECT_EQ(part.waits * 10 + part.signals, 21U);
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
  fake_vulkan.ticks_of_submit = 10;
  host_.Drain();
  std::int64_t gpu_ns = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    Submit({1});
    for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
  }
  EXPECT_GE(gpu_ns, 3'900'000);
  EXPECT_LE(gpu_ns, 4'100'000);
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

TEST_F(VulkanLayer, AnImageAheadIsPacedWithinItsTimeout) {
  Attach();
  const VkSwapchainKHR swapchain = MakeSwapchain(51);
  const auto acquire = [&](std::uint64_t timeout) {
    std::uint32_t image = 0;
    Call<PFN_vkAcquireNextImageKHR>("vkAcquireNextImageKHR")(device_, swapchain, timeout, VK_NULL_HANDLE,
                                                             VK_NULL_HANDLE, &image);
    return fake_vulkan.timeout;
  };
  constexpr std::uint64_t kHour = 3'600'000'000'000;
  host_.With([](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = 60'000'000}); });
  EXPECT_EQ(acquire(kHour), kHour) << "the program holds no other image";
  Present({swapchain});
  EXPECT_EQ(acquire(kHour), kHour) << "it has presented that one";
  EXPECT_LT(acquire(kHour), kHour) << "now it holds one, and the next is due an interval later";
  EXPECT_EQ(acquire(0), 0U) << "it doesn't wait";
  EXPECT_EQ(acquire(kForever), kForever);
  host_.With([](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = 0}); });
}

TEST_F(VulkanLayer, AForkedChildAttachesByItself) {
  Attach();
  const VkSwapchainKHR swapchain = MakeSwapchain(61);
  testing::Child child([&] {
    for (int i = 0; i < 200; ++i) {
      Present({swapchain});
      std::this_thread::sleep_for(milliseconds(5));
    }
    return 0;
  });
  EXPECT_TRUE(WaitUntil([this] { return host_.Processes() == 2; }));
  child.Kill();
  EXPECT_TRUE(WaitUntil([this] {
    host_.Settle();
    return host_.Processes() == 1;
  }));
}

}  // namespace
}  // namespace weir
