// SPDX-License-Identifier: Apache-2.0
// The layer as it is installed, between a fake loader and a fake driver. The shim reads its environment once, so all
// tests share one gate, and a test that needs batches waits until the presents of the one before are forgotten.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/harness/fake_vulkan.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir {

using testing::fake_vulkan;
using testing::GateHost;
using testing::WaitUntil;

inline constexpr std::uint64_t kForever = UINT64_MAX;

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
  /// A submit with parts of so many command buffers each. The first part waits for semaphores, or all of them do.
  VkResult Submit(std::vector<std::uint32_t> parts, const void* chain = nullptr, VkQueue queue = VK_NULL_HANDLE,
                  bool all_wait = false) {
    std::vector<VkSubmitInfo> infos;
    for (const std::uint32_t buffers : parts) {
      VkSubmitInfo info{};
      info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
      info.pNext = chain;
      info.commandBufferCount = buffers;
      info.pCommandBuffers = theirs_.data();
      info.waitSemaphoreCount = all_wait || infos.empty() ? 2 : 0;
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
  VkResult WaitForFences(std::uint64_t timeout = kForever) {
    return Call<PFN_vkWaitForFences>("vkWaitForFences")(device_, 0, nullptr, VK_TRUE, timeout);
  }
  /// Batches of a wait for the semaphore's value.
  std::size_t WaitSemaphore(VkSemaphore semaphore, std::uint64_t value) {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    return BatchesOf([&] { Call<PFN_vkWaitSemaphores>("vkWaitSemaphores")(device_, &info, kForever); });
  }
  /// A submit that signals the value, in the older form or in the newer one.
  void Signal(VkSemaphore semaphore, std::uint64_t value, bool with_work) {
    VkSemaphoreSubmitInfo signal{};
    signal.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO;
    signal.semaphore = semaphore;
    signal.value = value;
    VkCommandBufferSubmitInfo buffer{};
    buffer.commandBuffer = theirs_[0];
    VkSubmitInfo2 newer{};
    newer.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    newer.signalSemaphoreInfoCount = 1;
    newer.pSignalSemaphoreInfos = &signal;
    newer.commandBufferInfoCount = with_work ? 1 : 0;
    newer.pCommandBufferInfos = &buffer;
    VkTimelineSemaphoreSubmitInfo values{};
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo older{};
    older.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    older.pNext = &values;
    older.signalSemaphoreCount = 1;
    older.pSignalSemaphores = &semaphore;
    older.commandBufferCount = with_work ? 1 : 0;
    older.pCommandBuffers = theirs_.data();
    if (value % 2 == 0)
      Call<PFN_vkQueueSubmit2>("vkQueueSubmit2")(queue_, 1, &newer, VK_NULL_HANDLE);
    else
      Call<PFN_vkQueueSubmit>("vkQueueSubmit")(queue_, 1, &older, VK_NULL_HANDLE);
  }
  /// What is charged for all that the device has done until now, by batches that take hardly any time.
  std::int64_t ChargedBy(int batches) {
    fake_vulkan.ticks_of_submit = 10;
    std::int64_t gpu_ns = 0;
    for (int i = 0; i < batches; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
      Submit({1});
      for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns;
    }
    return gpu_ns;
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

}  // namespace weir
