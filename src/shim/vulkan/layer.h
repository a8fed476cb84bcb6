// SPDX-License-Identifier: Apache-2.0
// Inside libweir-vulkan.so: the layer's records of instances, devices, queues and swapchains. Page: docs/vulkan.md.
//
//   layer.cc         what the loader calls: the chain, creation and destruction of instances and devices
//   layer_work.cc    submits and waits
//   layer_signals.h  values of timeline semaphores that submits signal
//   layer_present.cc swapchains, images, presents
//   layer_timer.cc   timestamps around submits
//   layer_clock.cc   what of a physical device's time was charged
//   layer_threads.cc names lavapipe's workers
//   layer_memory.cc  allocations, and what programs are shown of a device's memory
//
// No function of the layer throws, and the library has no constructor that does anything.
#pragma once

#include <vulkan/vulkan.h>
// After it.
#include <vulkan/vk_layer.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "shim/vulkan/hooks.h"
#include "shim/vulkan/layer_clock.h"
#include "shim/vulkan/layer_memory.h"
#include "shim/vulkan/layer_signals.h"
#include "shim/vulkan/layer_table.h"

namespace weir::shim {

class QueueTimer;

// clang-format off
/// The device functions that the layer hooks.
#define WEIR_VULKAN_HOOKED(X)                                                                                        \
  X(DestroyDevice) X(GetDeviceQueue) X(GetDeviceQueue2)                                                              \
  X(QueueSubmit) X(QueueSubmit2) X(QueueSubmit2KHR) X(QueueBindSparse)                                               \
  X(QueueWaitIdle) X(DeviceWaitIdle) X(WaitForFences) X(WaitSemaphores) X(WaitSemaphoresKHR) X(DestroySemaphore)     \
  X(AllocateMemory) X(FreeMemory)                                                                                    \
  X(CreateSwapchainKHR) X(CreateSharedSwapchainsKHR) X(DestroySwapchainKHR)                                          \
  X(AcquireNextImageKHR) X(AcquireNextImage2KHR) X(ReleaseSwapchainImagesEXT) X(QueuePresentKHR)
/// The other device functions that the layer itself calls.
#define WEIR_VULKAN_CALLED(X)                                                                                        \
  X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)     \
  X(CmdResetQueryPool) X(CmdWriteTimestamp) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults)
// clang-format on

/// The functions of the next layer, or of the driver. A null pointer: it has no such function.
struct DeviceFunctions {
#define WEIR_DECLARE(name) PFN_vk##name name = nullptr;
  WEIR_VULKAN_HOOKED(WEIR_DECLARE)
  WEIR_VULKAN_CALLED(WEIR_DECLARE)
#undef WEIR_DECLARE
};

struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr get = nullptr;
  PFN_vkDestroyInstance destroy = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  PFN_vkDestroySurfaceKHR destroy_surface = nullptr;
  PFN_vkGetPhysicalDeviceProperties get_properties = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 get_properties2 = nullptr;  // null: the program asks for Vulkan 1.0
  PFN_vkGetPhysicalDeviceQueueFamilyProperties get_queue_families = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties get_memory = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties2 get_memory2 = nullptr, get_memory2_khr = nullptr;
};

struct Queue {
  VkQueue handle = VK_NULL_HANDLE;
  std::uint32_t family = 0;
  std::atomic<QueueTimer*> timer{nullptr};  // made at the first measured submit, under the program's lock on the queue
  bool untimed = false;                     // the queue cannot have a timer
};

struct QueueFamily {
  VkQueueFlags flags = 0;
  std::uint32_t timestamp_bits = 0;
};

struct Device {
  static constexpr std::size_t kFamilies = 16;
  static constexpr std::size_t kQueues = 64;

  VkDevice handle = VK_NULL_HANDLE;
  PFN_vkGetDeviceProcAddr get = nullptr;
  PFN_vkSetDeviceLoaderData set_loader_data = nullptr;
  DeviceFunctions next;
  weir_vulkan_device place{};
  char renderer[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE] = {};
  DeviceClock* clock = nullptr;  // null: no queue has timestamps, or there is no memory
  std::array<QueueFamily, kFamilies> families{};

  std::mutex mutex;  // guards the list of queues while it grows
  std::array<Queue, kQueues> queues{};
  std::atomic<std::size_t> queue_count{0};
  std::atomic<bool> submitted{false};  // work was submitted since the last wait
  Signals signals;
  DeviceMemory memory;

  ~Device() {
    if (clock != nullptr) clock->Release();
  }
};

struct Window {
  VkSurfaceKHR surface = VK_NULL_HANDLE;
  std::atomic<int> held{0};  // images that the program holds and has not presented
};

extern HandleTable<Instance> instances;  // by dispatch pointer, also of physical devices
extern HandleTable<Device> devices;      // by dispatch pointer, also of queues
extern HandleTable<Window> windows;      // by swapchain

/// The address of the loader's dispatch table, which is the first word of an instance, of a device, and of the objects
/// that were made from a device.
template <typename Handle>
std::uint64_t DispatchOf(Handle handle) {
  return *reinterpret_cast<const std::uint64_t*>(handle);
}
template <typename Handle>
std::uint64_t KeyOf(Handle handle) {
  return (std::uint64_t)handle;  // NOLINT: a pointer or a number
}
template <typename Handle>
Device& DeviceOf(Handle handle) {
  return *devices.Find(DispatchOf(handle));  // a hooked function is given for known devices only
}

/// The shim's functions; null: the program runs without a gate.
const weir_vulkan_hooks* Hooks();

/// Keeps the program's thread from being cancelled inside the shim, where that would end the process.
class InShim {
 public:
  InShim();
  ~InShim();
  InShim(const InShim&) = delete;
  InShim& operator=(const InShim&) = delete;

 private:
  int cancel_state_ = 0;
  int error_number_ = 0;
};

/// One passage of the gate around work: a submit or a wait.
class WorkPass {
 public:
  WorkPass(Device& device, weir_vulkan_work work, bool is_work);
  ~WorkPass();
  WorkPass(const WorkPass&) = delete;
  WorkPass& operator=(const WorkPass&) = delete;

 private:
  const weir_vulkan_hooks* const hooks_;
  weir_shim_pass pass_;
};

#define WEIR_DECLARE(name) extern const PFN_vk##name kOur##name;
WEIR_VULKAN_HOOKED(WEIR_DECLARE)
#undef WEIR_DECLARE

/// Returns the layer's function with that name if it is one of those that show a device's memory, and if the next layer
/// has it. Returns null otherwise.
PFN_vkVoidFunction MemoryHook(const Instance& instance, const char* name);
/// Gives back what the program has left allocated. The driver has destroyed the device.
void ReleaseLeftMemory(Device& device);

/// The queue's entry; null: the program did not get it through the layer.
Queue* QueueOf(Device& device, VkQueue queue);
/// Reports the GPU time of all submits whose timestamps are available.
void ReadTimers(Device& device);
/// The same, and reports all others as known, without time.
void DestroyTimers(Device& device);

}  // namespace weir::shim
