// SPDX-License-Identifier: Apache-2.0
// A Vulkan driver that counts calls and does nothing, and the loader's part of a chain with one layer. lavapipe has one
// queue and is a CPU; this driver has two families and timestamps that a test sets.
#pragma once

#include <dlfcn.h>
#include <vulkan/vulkan.h>
// After it.
#include <vulkan/vk_layer.h>

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"

namespace weir::testing {

/// What the driver was given and what it answers.
struct FakeVulkan {
  struct Object {
    void* dispatch = nullptr;
    int device = 0;
  };
  struct Part {
    const void* chain;
    std::vector<VkCommandBuffer> buffers;
    std::uint32_t waits, signals;
  };

  // Answers.
  VkResult result = VK_SUCCESS;  // of submits, waits and presents
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  const char* name = "Fake Vulkan";
  bool counts_only = false;  // it looks at no submit, for benchmarks
  bool has_release = false;  // vkReleaseSwapchainImagesEXT
  std::uint64_t ticks_of_submit = 10;
  std::uint64_t ticks_of_wait = 0;  // of a part that waits for semaphores
  std::function<void()> on_wait{};  // what happens while the program waits
  std::function<void()> on_create_device{};
  // Memory: type 0 is the device's, type 1 the host's.
  std::uint64_t heap_bytes = 1ULL << 30, heap_used = 0, heap_free = 1ULL << 30;
  VkResult memory_result = VK_SUCCESS;
  int allocations = 0, frees = 0;
  // What was called.
  int lookups = 0, late_lookups = 0;  // late: after the device was made
  bool made = false;
  int presents = 0, submits = 0, binds = 0, waits = 0, idles = 0, acquires = 0;
  const void* present_chain = nullptr;
  std::uint64_t timeout = 0;
  std::vector<Part> parts{};        // of the last submit
  std::vector<int> submitted_to{};  // devices, in order
  int loader_data = 0, pools = 0, query_pools = 0;
  // Timestamps: each recorded command buffer writes the queries that it names.
  struct Written {
    std::uint32_t query;
    bool resets;
  };
  std::deque<std::pair<Object, std::vector<Written>>> own_buffers{};
  std::deque<std::uint64_t> queries{};  // of all pools
  std::uint64_t clock = 1'000'000;
  bool withholds = false;  // results of timestamps
  bool stuck = false;      // what is submitted runs when the device goes on
  bool slow = false;       // what is submitted begins, and ends when the device goes on
  std::vector<std::vector<Part>> queued{};

  std::deque<Object> objects{};
  std::deque<void*> tables{};
};
inline FakeVulkan fake_vulkan;

namespace fake {

template <typename Handle>
Handle MakeHandle(void* dispatch, int device) {
  fake_vulkan.objects.push_back({dispatch, device});
  return reinterpret_cast<Handle>(&fake_vulkan.objects.back());
}
template <typename Handle>
FakeVulkan::Object& ObjectOf(Handle handle) {
  return *reinterpret_cast<FakeVulkan::Object*>(handle);
}
inline void* NewTable() {
  fake_vulkan.tables.push_back(nullptr);
  return &fake_vulkan.tables.back();
}

inline VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo*, const VkAllocationCallbacks*,
                                                     VkInstance* instance) {
  *instance = MakeHandle<VkInstance>(NewTable(), 0);
  return VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance, const VkAllocationCallbacks*) {}
inline VKAPI_ATTR void VKAPI_CALL DestroySurface(VkInstance, VkSurfaceKHR, const VkAllocationCallbacks*) {}
inline VKAPI_ATTR void VKAPI_CALL GetProperties(VkPhysicalDevice, VkPhysicalDeviceProperties* properties) {
  *properties = {};
  properties->deviceType = fake_vulkan.type;
  properties->limits.timestampPeriod = 1000;  // a tick is a microsecond
  properties->apiVersion = VK_API_VERSION_1_3;
  std::strcpy(properties->deviceName, fake_vulkan.name);
}
/// All physical devices are the same one.
inline VKAPI_ATTR void VKAPI_CALL GetProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
  GetProperties(device, &properties->properties);
  auto* id = static_cast<VkPhysicalDeviceIDProperties*>(properties->pNext);
  if (id != nullptr && id->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES) id->deviceUUID[0] = 1;
}
inline VKAPI_ATTR void VKAPI_CALL GetFamilies(VkPhysicalDevice, std::uint32_t* count,
                                              VkQueueFamilyProperties* families) {
  *count = 2;
  families[0] = {VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT, 2, 64, {1, 1, 1}};
  families[1] = {VK_QUEUE_TRANSFER_BIT, 1, 0, {1, 1, 1}};
}
inline VKAPI_ATTR void VKAPI_CALL GetMemory(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties* memory) {
  *memory = {};
  memory->memoryTypeCount = memory->memoryHeapCount = 2;
  memory->memoryTypes[1].heapIndex = 1;
  memory->memoryHeaps[0] = {fake_vulkan.heap_bytes, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory->memoryHeaps[1] = {fake_vulkan.heap_bytes, 0};
}
inline VKAPI_ATTR void VKAPI_CALL GetMemory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* memory) {
  GetMemory(device, &memory->memoryProperties);
  auto* budget = static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(memory->pNext);
  if (budget == nullptr) return;
  for (int heap = 0; heap < 2; ++heap) {
    budget->heapUsage[heap] = fake_vulkan.heap_used;
    budget->heapBudget[heap] = fake_vulkan.heap_used + fake_vulkan.heap_free;
  }
}
inline VKAPI_ATTR VkResult VKAPI_CALL AllocateMemory(VkDevice, const VkMemoryAllocateInfo*,
                                                     const VkAllocationCallbacks*, VkDeviceMemory* memory) {
  if (fake_vulkan.memory_result != VK_SUCCESS) return fake_vulkan.memory_result;
  *memory = MakeHandle<VkDeviceMemory>(nullptr, 0);
  return ++fake_vulkan.allocations, VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL FreeMemory(VkDevice, VkDeviceMemory, const VkAllocationCallbacks*) {
  ++fake_vulkan.frees;
}
inline VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo*,
                                                   const VkAllocationCallbacks*, VkDevice* device) {
  static int devices = 0;
  if (fake_vulkan.on_create_device) fake_vulkan.on_create_device();
  *device = MakeHandle<VkDevice>(NewTable(), ++devices);
  return VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice, const VkAllocationCallbacks*) {}
inline VKAPI_ATTR void VKAPI_CALL GetDeviceQueue(VkDevice device, std::uint32_t, std::uint32_t, VkQueue* queue) {
  *queue = MakeHandle<VkQueue>(ObjectOf(device).dispatch, ObjectOf(device).device);
}

/// The device runs a submit at once: it takes ticks_of_submit, between our two timestamps if there are any.
inline void Run(const std::vector<FakeVulkan::Part>& parts) {
  for (const auto& part : parts) {
    if (part.waits != 0) fake_vulkan.clock += fake_vulkan.ticks_of_wait;
    for (const VkCommandBuffer buffer : part.buffers) {
      bool ours = false;
      for (auto& [object, writes] : fake_vulkan.own_buffers) {
        if (reinterpret_cast<VkCommandBuffer>(&object) != buffer) continue;
        ours = true;
        for (const auto& write : writes)
          if (!write.resets) fake_vulkan.queries.at(write.query) = fake_vulkan.clock;
      }
      if (!ours) fake_vulkan.clock += fake_vulkan.ticks_of_submit;
    }
  }
}
inline void GoOn() {
  fake_vulkan.stuck = fake_vulkan.slow = false;
  for (const auto& parts : fake_vulkan.queued) Run(parts);
  fake_vulkan.queued.clear();
}
/// As GoOn, with all that is queued beginning at once, as several queues do. Each takes ticks_of_submit longer than the
/// one before.
inline void GoOnTogether() {
  fake_vulkan.stuck = false;
  const auto write = [](std::uint32_t which) {
    for (const auto& parts : fake_vulkan.queued) {
      if (which == 1) fake_vulkan.clock += fake_vulkan.ticks_of_submit;
      for (const auto& part : parts)
        for (auto& [object, writes] : fake_vulkan.own_buffers)
          for (const VkCommandBuffer buffer : part.buffers)
            for (const auto& one : writes)
              if (reinterpret_cast<VkCommandBuffer>(&object) == buffer && !one.resets && one.query % 2 == which)
                fake_vulkan.queries.at(one.query) = fake_vulkan.clock;
    }
  };
  write(0);
  write(1);
  fake_vulkan.queued.clear();
}
inline VkResult Submitted(VkQueue queue, std::vector<FakeVulkan::Part> parts) {
  ++fake_vulkan.submits;
  fake_vulkan.submitted_to.push_back(ObjectOf(queue).device);
  fake_vulkan.parts = std::move(parts);
  if (fake_vulkan.result != VK_SUCCESS) return fake_vulkan.result;
  if (fake_vulkan.slow) {
    std::vector<FakeVulkan::Part> rest = fake_vulkan.parts;
    auto& first = rest.front().buffers;
    Run({{nullptr, {first.front()}, 0, 0}});
    first.erase(first.begin());
    fake_vulkan.queued.push_back(std::move(rest));
  } else if (fake_vulkan.stuck) {
    fake_vulkan.queued.push_back(fake_vulkan.parts);
  } else {
    Run(fake_vulkan.parts);
  }
  return fake_vulkan.result;
}
inline VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                                                  VkFence) {
  if (fake_vulkan.counts_only) return ++fake_vulkan.submits, VK_SUCCESS;
  std::vector<FakeVulkan::Part> parts;
  for (std::uint32_t i = 0; i < count; ++i)
    parts.push_back({infos[i].pNext,
                     {infos[i].pCommandBuffers, infos[i].pCommandBuffers + infos[i].commandBufferCount},
                     infos[i].waitSemaphoreCount,
                     infos[i].signalSemaphoreCount});
  return Submitted(queue, std::move(parts));
}
inline VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                                                   VkFence) {
  std::vector<FakeVulkan::Part> parts;
  for (std::uint32_t i = 0; i < count; ++i) {
    parts.push_back({infos[i].pNext, {}, infos[i].waitSemaphoreInfoCount, infos[i].signalSemaphoreInfoCount});
    for (std::uint32_t b = 0; b < infos[i].commandBufferInfoCount; ++b)
      parts.back().buffers.push_back(infos[i].pCommandBufferInfos[b].commandBuffer);
  }
  return Submitted(queue, std::move(parts));
}
inline VKAPI_ATTR VkResult VKAPI_CALL QueueBindSparse(VkQueue, std::uint32_t, const VkBindSparseInfo*, VkFence) {
  ++fake_vulkan.binds;
  return fake_vulkan.result;
}
inline VKAPI_ATTR VkResult VKAPI_CALL QueueWaitIdle(VkQueue) { return ++fake_vulkan.idles, fake_vulkan.result; }
inline VKAPI_ATTR VkResult VKAPI_CALL DeviceWaitIdle(VkDevice) { return ++fake_vulkan.idles, fake_vulkan.result; }
inline VkResult Waited() {
  if (fake_vulkan.on_wait) fake_vulkan.on_wait();
  return ++fake_vulkan.waits, fake_vulkan.result;
}
inline VKAPI_ATTR VkResult VKAPI_CALL WaitForFences(VkDevice, std::uint32_t, const VkFence*, VkBool32, std::uint64_t) {
  return Waited();
}
inline VKAPI_ATTR void VKAPI_CALL DestroySemaphore(VkDevice, VkSemaphore, const VkAllocationCallbacks*) {}
inline VKAPI_ATTR VkResult VKAPI_CALL WaitSemaphores(VkDevice, const VkSemaphoreWaitInfo*, std::uint64_t) {
  return Waited();
}
inline VKAPI_ATTR VkResult VKAPI_CALL CreateSwapchain(VkDevice, const VkSwapchainCreateInfoKHR*,
                                                      const VkAllocationCallbacks*, VkSwapchainKHR* swapchain) {
  *swapchain = MakeHandle<VkSwapchainKHR>(nullptr, 0);
  return VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL DestroySwapchain(VkDevice, VkSwapchainKHR, const VkAllocationCallbacks*) {}
inline VKAPI_ATTR VkResult VKAPI_CALL Acquire(VkDevice, VkSwapchainKHR, std::uint64_t timeout, VkSemaphore, VkFence,
                                              std::uint32_t*) {
  fake_vulkan.timeout = timeout;
  return ++fake_vulkan.acquires, fake_vulkan.result;
}
inline VKAPI_ATTR VkResult VKAPI_CALL Acquire2(VkDevice, const VkAcquireNextImageInfoKHR* info, std::uint32_t*) {
  fake_vulkan.timeout = info->timeout;
  return ++fake_vulkan.acquires, fake_vulkan.result;
}
inline VKAPI_ATTR VkResult VKAPI_CALL Release(VkDevice, const VkReleaseSwapchainImagesInfoEXT*) { return VK_SUCCESS; }
inline VKAPI_ATTR VkResult VKAPI_CALL Present(VkQueue, const VkPresentInfoKHR* info) {
  fake_vulkan.present_chain = info->pNext;
  return ++fake_vulkan.presents, fake_vulkan.result;
}

inline VKAPI_ATTR VkResult VKAPI_CALL CreatePool(VkDevice, const VkCommandPoolCreateInfo*, const VkAllocationCallbacks*,
                                                 VkCommandPool* pool) {
  *pool = MakeHandle<VkCommandPool>(nullptr, 0);
  return ++fake_vulkan.pools, VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL DestroyPool(VkDevice, VkCommandPool, const VkAllocationCallbacks*) {
  --fake_vulkan.pools;
}
inline VKAPI_ATTR VkResult VKAPI_CALL AllocateBuffers(VkDevice, const VkCommandBufferAllocateInfo* info,
                                                      VkCommandBuffer* buffers) {
  for (std::uint32_t i = 0; i < info->commandBufferCount; ++i) {
    fake_vulkan.own_buffers.push_back({});
    buffers[i] = reinterpret_cast<VkCommandBuffer>(&fake_vulkan.own_buffers.back().first);
  }
  return VK_SUCCESS;
}
inline VKAPI_ATTR VkResult VKAPI_CALL BeginBuffer(VkCommandBuffer, const VkCommandBufferBeginInfo*) {
  return VK_SUCCESS;
}
inline VKAPI_ATTR VkResult VKAPI_CALL EndBuffer(VkCommandBuffer) { return VK_SUCCESS; }
inline void Note(VkCommandBuffer buffer, std::uint32_t query, bool resets) {
  for (auto& [object, writes] : fake_vulkan.own_buffers)
    if (reinterpret_cast<VkCommandBuffer>(&object) == buffer) writes.push_back({query, resets});
}
/// A pool is known by the number of its first query.
inline std::uint32_t FirstOf(VkQueryPool pool) { return static_cast<std::uint32_t>(ObjectOf(pool).device); }
inline VKAPI_ATTR void VKAPI_CALL ResetQueries(VkCommandBuffer buffer, VkQueryPool pool, std::uint32_t first,
                                               std::uint32_t) {
  Note(buffer, FirstOf(pool) + first, true);
}
inline VKAPI_ATTR void VKAPI_CALL WriteTimestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits, VkQueryPool pool,
                                                 std::uint32_t query) {
  Note(buffer, FirstOf(pool) + query, false);
}
inline VKAPI_ATTR VkResult VKAPI_CALL CreateQueries(VkDevice, const VkQueryPoolCreateInfo* info,
                                                    const VkAllocationCallbacks*, VkQueryPool* pool) {
  *pool = MakeHandle<VkQueryPool>(nullptr, static_cast<int>(fake_vulkan.queries.size()));
  fake_vulkan.queries.resize(fake_vulkan.queries.size() + info->queryCount);
  return ++fake_vulkan.query_pools, VK_SUCCESS;
}
inline VKAPI_ATTR void VKAPI_CALL DestroyQueries(VkDevice, VkQueryPool, const VkAllocationCallbacks*) {
  --fake_vulkan.query_pools;
}
inline VKAPI_ATTR VkResult VKAPI_CALL GetResults(VkDevice, VkQueryPool pool, std::uint32_t first, std::uint32_t count,
                                                 std::size_t, void* data, VkDeviceSize, VkQueryResultFlags) {
  auto* words = static_cast<std::uint64_t*>(data);
  first += FirstOf(pool);
  for (std::uint32_t i = 0; i < count; ++i) {
    words[2 * i] = fake_vulkan.queries.at(first + i);
    words[2 * i + 1] = fake_vulkan.withholds || fake_vulkan.queries.at(first + i) == 0 ? 0 : 1;
  }
  return VK_SUCCESS;
}

template <typename Function>
PFN_vkVoidFunction AsVoid(Function* function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}
struct Named {
  const char* name;
  PFN_vkVoidFunction function;
};
inline PFN_vkVoidFunction DeviceFunction(const char* name) {
  static const Named kFunctions[] = {
      {"vkDestroyDevice", AsVoid(&DestroyDevice)},
      {"vkGetDeviceQueue", AsVoid(&GetDeviceQueue)},
      {"vkQueueSubmit", AsVoid(&QueueSubmit)},
      {"vkQueueSubmit2", AsVoid(&QueueSubmit2)},
      {"vkQueueSubmit2KHR", AsVoid(&QueueSubmit2)},
      {"vkQueueBindSparse", AsVoid(&QueueBindSparse)},
      {"vkQueueWaitIdle", AsVoid(&QueueWaitIdle)},
      {"vkDeviceWaitIdle", AsVoid(&DeviceWaitIdle)},
      {"vkWaitForFences", AsVoid(&WaitForFences)},
      {"vkWaitSemaphores", AsVoid(&WaitSemaphores)},
      {"vkDestroySemaphore", AsVoid(&DestroySemaphore)},
      {"vkAllocateMemory", AsVoid(&AllocateMemory)},
      {"vkFreeMemory", AsVoid(&FreeMemory)},
      {"vkCreateSwapchainKHR", AsVoid(&CreateSwapchain)},
      {"vkDestroySwapchainKHR", AsVoid(&DestroySwapchain)},
      {"vkAcquireNextImageKHR", AsVoid(&Acquire)},
      {"vkAcquireNextImage2KHR", AsVoid(&Acquire2)},
      {"vkReleaseSwapchainImagesEXT", AsVoid(&Release)},
      {"vkQueuePresentKHR", AsVoid(&Present)},
      {"vkCreateCommandPool", AsVoid(&CreatePool)},
      {"vkDestroyCommandPool", AsVoid(&DestroyPool)},
      {"vkAllocateCommandBuffers", AsVoid(&AllocateBuffers)},
      {"vkBeginCommandBuffer", AsVoid(&BeginBuffer)},
      {"vkEndCommandBuffer", AsVoid(&EndBuffer)},
      {"vkCmdResetQueryPool", AsVoid(&ResetQueries)},
      {"vkCmdWriteTimestamp", AsVoid(&WriteTimestamp)},
      {"vkCreateQueryPool", AsVoid(&CreateQueries)},
      {"vkDestroyQueryPool", AsVoid(&DestroyQueries)},
      {"vkGetQueryPoolResults", AsVoid(&GetResults)},
      {"vkCmdDraw", AsVoid(&EndBuffer)},  // a function that the layer has nothing to do with
  };
  if (std::strcmp(name, "vkReleaseSwapchainImagesEXT") == 0 && !fake_vulkan.has_release) return nullptr;
  for (const Named& one : kFunctions)
    if (std::strcmp(name, one.name) == 0) return one.function;
  return nullptr;
}
inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice, const char* name) {
  ++(fake_vulkan.made ? fake_vulkan.late_lookups : fake_vulkan.lookups);
  return DeviceFunction(name);
}
inline VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance, const char* name) {
  static const Named kFunctions[] = {
      {"vkCreateInstance", AsVoid(&CreateInstance)},
      {"vkDestroyInstance", AsVoid(&DestroyInstance)},
      {"vkCreateDevice", AsVoid(&CreateDevice)},
      {"vkDestroySurfaceKHR", AsVoid(&DestroySurface)},
      {"vkGetPhysicalDeviceProperties", AsVoid(&GetProperties)},
      {"vkGetPhysicalDeviceProperties2", AsVoid(&GetProperties2)},
      {"vkGetPhysicalDeviceQueueFamilyProperties", AsVoid(&GetFamilies)},
      {"vkGetPhysicalDeviceMemoryProperties", AsVoid(&GetMemory)},
      {"vkGetPhysicalDeviceMemoryProperties2", AsVoid(&GetMemory2)},
  };
  for (const Named& one : kFunctions)
    if (std::strcmp(name, one.name) == 0) return one.function;
  return DeviceFunction(name);
}
inline VKAPI_ATTR VkResult VKAPI_CALL SetLoaderData(VkDevice, void*) { return ++fake_vulkan.loader_data, VK_SUCCESS; }

}  // namespace fake

/// The loader: opens the layer, and makes instances and devices through it.
class VulkanChain {
 public:
  explicit VulkanChain(const std::string& layer) {
    void* library = ::dlopen(layer.c_str(), RTLD_NOW | RTLD_LOCAL);
    WEIR_CHECK(library != nullptr);
    const auto negotiate =
        reinterpret_cast<PFN_vkNegotiateLoaderLayerInterfaceVersion>(::dlsym(library, "weir_vulkan_negotiate"));
    WEIR_CHECK(negotiate != nullptr);
    layer_.sType = LAYER_NEGOTIATE_INTERFACE_STRUCT;
    layer_.loaderLayerInterfaceVersion = CURRENT_LOADER_LAYER_INTERFACE_VERSION;
    WEIR_CHECK(negotiate(&layer_) == VK_SUCCESS);
  }
  VkInstance MakeInstance() {
    VkLayerInstanceLink link{nullptr, &fake::GetInstanceProcAddr, nullptr};
    VkLayerInstanceCreateInfo loader{};
    loader.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO;
    loader.function = VK_LAYER_LINK_INFO;
    loader.u.pLayerInfo = &link;
    VkApplicationInfo program{};
    program.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    program.apiVersion = VK_API_VERSION_1_1;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &program;
    info.pNext = &loader;
    VkInstance instance = VK_NULL_HANDLE;
    WEIR_CHECK(Get<PFN_vkCreateInstance>(VkInstance{}, "vkCreateInstance")(&info, nullptr, &instance) == VK_SUCCESS);
    return instance;
  }
  VkDevice MakeDevice(VkInstance instance) {
    fake_vulkan.made = false;
    VkLayerDeviceLink link{nullptr, &fake::GetInstanceProcAddr, &fake::GetDeviceProcAddr};
    VkLayerDeviceCreateInfo loader{}, callback{};
    callback.sType = loader.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO;
    callback.function = VK_LOADER_DATA_CALLBACK;
    callback.u.pfnSetDeviceLoaderData = &fake::SetLoaderData;
    loader.function = VK_LAYER_LINK_INFO;
    loader.u.pLayerInfo = &link;
    loader.pNext = &callback;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &loader;
    // A physical device has its instance's dispatch table.
    const auto physical = fake::MakeHandle<VkPhysicalDevice>(fake::ObjectOf(instance).dispatch, 0);
    VkDevice device = VK_NULL_HANDLE;
    WEIR_CHECK(Get<PFN_vkCreateDevice>(instance, "vkCreateDevice")(physical, &info, nullptr, &device) == VK_SUCCESS);
    fake_vulkan.made = true;
    return device;
  }
  template <typename Function>
  Function Get(VkInstance instance, const char* name) {
    return reinterpret_cast<Function>(layer_.pfnGetInstanceProcAddr(instance, name));
  }
  template <typename Function>
  Function Get(VkDevice device, const char* name) {
    return reinterpret_cast<Function>(layer_.pfnGetDeviceProcAddr(device, name));
  }

 private:
  VkNegotiateLayerInterface layer_{};
};

}  // namespace weir::testing
