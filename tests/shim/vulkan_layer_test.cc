// SPDX-License-Identifier: Apache-2.0
// What the layer passes on: lookups, presents, submits, waits and images.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "platform/thread_cpu.h"
#include "tests/harness/child.h"
#include "tests/shim/vulkan_layer_fixture.h"

namespace weir {
namespace {

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
  const auto wait = [this](std::uint64_t timeout) { return BatchesOf([&] { WaitForFences(timeout); }); };
  EXPECT_EQ(BatchesOf([this] { Submit({1}); }), 1U);
  EXPECT_EQ(wait(0), 0U) << "a question";
  EXPECT_EQ(wait(kForever), 1U);
  EXPECT_EQ(wait(kForever), 0U) << "nothing was submitted since: it may be for anything";
  EXPECT_EQ(BatchesOf([this] { Submit({1}); }), 1U);
  EXPECT_EQ(BatchesOf([this] { Call<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device_); }), 1U);
}

/// It waits for a value that no submit signals yet. Another thread's submit signals it.
TEST_F(VulkanLayer, AThreadThatWaitsForALaterSubmitIsNotInFlight) {
  AttachBySubmits();
  const auto semaphore = testing::fake::MakeHandle<VkSemaphore>(nullptr, 0);
  std::uint32_t in_flight = 0;
  const auto look = [&] { in_flight = host_.InFlight(); };
  std::uint64_t value = 0;
  for (const bool with_work : {true, false, true}) {
    SCOPED_TRACE(value);
    BatchesOf([this] { Submit({1}); });  // for another thread
    fake_vulkan.on_wait = look;
    fake_vulkan.result = VK_TIMEOUT;
    EXPECT_EQ(WaitSemaphore(semaphore, value + 1), 0U);
    EXPECT_EQ(in_flight, 0U) << "its time may pass";
    fake_vulkan.result = VK_SUCCESS;
    fake_vulkan.on_wait = [&] {
      look();
      Signal(semaphore, ++value, with_work);
    };
    EXPECT_GE(WaitSemaphore(semaphore, value + 1), 1U) << "what has ended is settled";
    EXPECT_EQ(in_flight, 0U);
    BatchesOf([&] { Signal(semaphore, ++value, with_work); });
    BatchesOf([this] { Submit({1}); });
    fake_vulkan.on_wait = look;
    EXPECT_EQ(WaitSemaphore(semaphore, value), 1U);
    EXPECT_EQ(in_flight, 1U) << "this one is for work on the device";
  }
  Call<PFN_vkDestroySemaphore>("vkDestroySemaphore")(device_, semaphore, nullptr);
  Submit({1});
  WaitSemaphore(semaphore, 1);
  EXPECT_EQ(in_flight, 0U) << "another one with the same handle";
  fake_vulkan.on_wait = nullptr;
}

/// The shim waits at the gate only: with the gate open, a submit returns though no work has ended, and calls no wait.
TEST_F(VulkanLayer, NoWorkOfTheProgramIsWaitedFor) {
  AttachBySubmits();
  fake_vulkan.withholds = true;
  const int waits = fake_vulkan.waits + fake_vulkan.idles;
  for (int i = 0; i < 200; ++i) BatchesOf([this] { Submit({1}); });
  EXPECT_EQ(fake_vulkan.waits + fake_vulkan.idles, waits);
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
  Present({swapchain});
  EXPECT_EQ(acquire(1), 1U) << "with zero, the driver would not say that the time is over";
  host_.With([](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = 0}); });
}

/// SwiftShader's threads have no names of their own, and no rasterizers are named before them.
TEST_F(VulkanLayer, ThreadsOfOtherDriversThanLlvmpipeKeepTheirNames) {
  std::atomic<bool> end = false;
  std::vector<std::thread> threads;
  fake_vulkan.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  fake_vulkan.on_create_device = [&] {
    for (const char* name : {"llvmpipe-0", ""}) {
      std::atomic<bool> named = false;
      threads.emplace_back([&, name] {
        if (*name != 0) ::pthread_setname_np(::pthread_self(), name);
        named = true;
        while (!end) std::this_thread::sleep_for(milliseconds(1));
      });
      while (!named) std::this_thread::yield();
    }
  };
  const auto workers = [this](const char* name) {
    fake_vulkan.name = name;
    const VkDevice device = shared_.chain->MakeDevice(shared_.instance);
    const std::size_t named = platform::ThreadsOfThisProcess("llvmpipe-cs").size();
    shared_.chain->Get<PFN_vkDestroyDevice>(device, "vkDestroyDevice")(device, nullptr);
    return named;
  };
  EXPECT_EQ(workers("SwiftShader Device (LLVM 16.0.0)"), 0U);
  EXPECT_EQ(workers("llvmpipe (LLVM 15.0.6, 256 bits)"), 1U);
  fake_vulkan.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  fake_vulkan.name = "Fake Vulkan";
  fake_vulkan.on_create_device = nullptr;
  end = true;
  for (std::thread& thread : threads) thread.join();
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
