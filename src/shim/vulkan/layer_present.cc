// SPDX-License-Identifier: Apache-2.0
// Swapchains, their images, and presents. A window is a surface: a swapchain that replaces another one continues it.
#include <algorithm>
#include <memory>

#include "shim/vulkan/layer.h"

namespace weir::shim {
namespace {

/// Bound of the windows of one present that have frames of their own; further windows have none.
constexpr std::size_t kWindowsMost = 8;

void NoteSwapchain(VkSwapchainKHR swapchain, VkSurfaceKHR surface) {
  std::unique_ptr<Window> made(new (std::nothrow) Window);
  if (made == nullptr) return;  // the swapchain then counts as a window of its own
  made->surface = surface;
  if (windows.Add(KeyOf(swapchain), made.get())) static_cast<void>(made.release());
}

VKAPI_ATTR VkResult VKAPI_CALL CreateSwapchain(VkDevice handle, const VkSwapchainCreateInfoKHR* info,
                                               const VkAllocationCallbacks* allocator, VkSwapchainKHR* swapchain) {
  const VkResult result = DeviceOf(handle).next.CreateSwapchainKHR(handle, info, allocator, swapchain);
  if (result == VK_SUCCESS) NoteSwapchain(*swapchain, info->surface);
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateSharedSwapchains(VkDevice handle, std::uint32_t count,
                                                      const VkSwapchainCreateInfoKHR* infos,
                                                      const VkAllocationCallbacks* allocator,
                                                      VkSwapchainKHR* swapchains) {
  const VkResult result = DeviceOf(handle).next.CreateSharedSwapchainsKHR(handle, count, infos, allocator, swapchains);
  if (result == VK_SUCCESS)
    for (std::uint32_t i = 0; i < count; ++i) NoteSwapchain(swapchains[i], infos[i].surface);
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroySwapchain(VkDevice handle, VkSwapchainKHR swapchain,
                                            const VkAllocationCallbacks* allocator) {
  delete windows.Take(KeyOf(swapchain));
  DeviceOf(handle).next.DestroySwapchainKHR(handle, swapchain, allocator);
}

/// Delays a program that draws ahead, and shortens its timeout by the delay. A timeout does not become zero, with which
/// the driver would give another result. Returns null if the swapchain is unknown.
Window* PaceImage(VkSwapchainKHR swapchain, std::uint64_t& timeout) {
  Window* window = windows.Find(KeyOf(swapchain));
  if (window == nullptr) return nullptr;
  const int ahead = window->held.load(std::memory_order_relaxed);
  const weir_vulkan_hooks* hooks = ahead > 0 && timeout != 0 ? Hooks() : nullptr;
  if (hooks == nullptr) return window;
  const InShim in_shim;
  const std::uint64_t waited = hooks->before_image(KeyOf(window->surface), ahead, timeout);
  if (timeout != UINT64_MAX) timeout = waited < timeout ? timeout - waited : 1;
  return window;
}

void NoteImage(Window* window, VkResult result) {
  if (window != nullptr && (result == VK_SUCCESS || result == VK_SUBOPTIMAL_KHR))
    window->held.fetch_add(1, std::memory_order_relaxed);
}

VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImage(VkDevice handle, VkSwapchainKHR swapchain, std::uint64_t timeout,
                                                VkSemaphore semaphore, VkFence fence, std::uint32_t* image) {
  Window* window = PaceImage(swapchain, timeout);
  const VkResult result =
      DeviceOf(handle).next.AcquireNextImageKHR(handle, swapchain, timeout, semaphore, fence, image);
  NoteImage(window, result);
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImage2(VkDevice handle, const VkAcquireNextImageInfoKHR* info,
                                                 std::uint32_t* image) {
  VkAcquireNextImageInfoKHR shorter = *info;
  Window* window = PaceImage(info->swapchain, shorter.timeout);
  const VkResult result = DeviceOf(handle).next.AcquireNextImage2KHR(handle, &shorter, image);
  NoteImage(window, result);
  return result;
}

void Release(VkSwapchainKHR swapchain, int images) {
  if (Window* window = windows.Find(KeyOf(swapchain))) window->held.fetch_sub(images, std::memory_order_relaxed);
}

VKAPI_ATTR VkResult VKAPI_CALL ReleaseSwapchainImages(VkDevice handle, const VkReleaseSwapchainImagesInfoEXT* info) {
  const VkResult result = DeviceOf(handle).next.ReleaseSwapchainImagesEXT(handle, info);
  if (result == VK_SUCCESS) Release(info->swapchain, static_cast<int>(info->imageIndexCount));
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL QueuePresent(VkQueue queue, const VkPresentInfoKHR* info) {
  Device& device = DeviceOf(queue);
  const weir_vulkan_hooks* hooks = Hooks();
  weir_shim_pass passes[kWindowsMost];
  const std::size_t frames = hooks == nullptr ? 0 : std::min<std::size_t>(info->swapchainCount, kWindowsMost);
  if (frames > 0) {
    const InShim in_shim;
    for (std::size_t i = 0; i < frames; ++i) {
      const Window* window = windows.Find(KeyOf(info->pSwapchains[i]));
      const std::uint64_t key = window != nullptr ? KeyOf(window->surface) : KeyOf(info->pSwapchains[i]);
      hooks->before_present(&passes[i], key, &device.place);
    }
  }
  const VkResult result = device.next.QueuePresentKHR(queue, info);
  if (hooks != nullptr && hooks->need() == WEIR_VULKAN_NEEDS_TIME) ReadTimers(device);
  if (frames > 0) {
    const InShim in_shim;
    for (std::size_t i = 0; i < frames; ++i) hooks->after_present(&passes[i]);
  }
  // The image returns to the swapchain with every result except a lack of memory, which presents nothing.
  if (result != VK_ERROR_OUT_OF_HOST_MEMORY && result != VK_ERROR_OUT_OF_DEVICE_MEMORY)
    for (std::uint32_t i = 0; i < info->swapchainCount; ++i) Release(info->pSwapchains[i], 1);
  return result;
}

}  // namespace

const PFN_vkCreateSwapchainKHR kOurCreateSwapchainKHR = &CreateSwapchain;
const PFN_vkCreateSharedSwapchainsKHR kOurCreateSharedSwapchainsKHR = &CreateSharedSwapchains;
const PFN_vkDestroySwapchainKHR kOurDestroySwapchainKHR = &DestroySwapchain;
const PFN_vkAcquireNextImageKHR kOurAcquireNextImageKHR = &AcquireNextImage;
const PFN_vkAcquireNextImage2KHR kOurAcquireNextImage2KHR = &AcquireNextImage2;
const PFN_vkReleaseSwapchainImagesEXT kOurReleaseSwapchainImagesEXT = &ReleaseSwapchainImages;
const PFN_vkQueuePresentKHR kOurQueuePresentKHR = &QueuePresent;

}  // namespace weir::shim
