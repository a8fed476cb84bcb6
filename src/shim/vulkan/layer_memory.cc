// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/vulkan/layer.h"

namespace weir::shim {

void DeviceMemory::Describe(const VkPhysicalDeviceMemoryProperties& properties) noexcept {
  for (std::uint32_t type = 0; type < std::min(properties.memoryTypeCount, VK_MAX_MEMORY_TYPES); ++type) {
    const std::uint32_t heap = properties.memoryTypes[type].heapIndex;
    if (heap < VK_MAX_MEMORY_HEAPS && (properties.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
      counted_types_ |= 1U << type;
  }
}

bool DeviceMemory::Counts(const VkMemoryAllocateInfo& info) const noexcept {
  if (info.memoryTypeIndex >= VK_MAX_MEMORY_TYPES || (counted_types_ >> info.memoryTypeIndex & 1) == 0) return false;
  for (auto* at = static_cast<const VkBaseInStructure*>(info.pNext); at != nullptr; at = at->pNext) {
    if (at->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR &&
        reinterpret_cast<const VkImportMemoryFdInfoKHR*>(at)->handleType != 0)
      return false;
    if (at->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT &&
        reinterpret_cast<const VkImportMemoryHostPointerInfoEXT*>(at)->handleType != 0)
      return false;
  }
  return true;
}

bool DeviceMemory::Add(std::uint64_t memory, std::uint64_t bytes) noexcept try {
  const std::lock_guard lock(mutex_);
  bytes_[memory] += bytes;
  return true;
} catch (...) {
  return false;
}

std::uint64_t DeviceMemory::Take(std::uint64_t memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = bytes_.find(memory);
  if (found == bytes_.end()) return 0;
  const std::uint64_t bytes = found->second;
  bytes_.erase(found);
  return bytes;
}

std::uint64_t DeviceMemory::TakeAll() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [memory, bytes] : bytes_) sum += bytes;
  bytes_.clear();
  return sum;
}

namespace {

// -- Allocations -----------------------------------------------------------------------------------------------------

void GiveBack(std::uint64_t bytes) {
  const weir_vulkan_hooks* hooks = Hooks();
  if (bytes == 0 || hooks == nullptr) return;
  const InShim in_shim;
  hooks->release_memory(bytes);
}

bool Claim(std::uint64_t bytes) {
  const InShim in_shim;
  return Hooks()->claim_memory(bytes) != 0;
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateMemory(VkDevice handle, const VkMemoryAllocateInfo* info,
                                              const VkAllocationCallbacks* allocator, VkDeviceMemory* memory) {
  Device& device = DeviceOf(handle);
  if (Hooks() == nullptr || !device.memory.Counts(*info))
    return device.next.AllocateMemory(handle, info, allocator, memory);
  if (!Claim(info->allocationSize)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkResult result = device.next.AllocateMemory(handle, info, allocator, memory);
  if (result == VK_SUCCESS && !device.memory.Add(KeyOf(*memory), info->allocationSize)) {
    device.next.FreeMemory(handle, std::exchange(*memory, VkDeviceMemory{}), allocator);
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  if (result != VK_SUCCESS) GiveBack(info->allocationSize);
  return result;
}

VKAPI_ATTR void VKAPI_CALL FreeMemory(VkDevice handle, VkDeviceMemory memory, const VkAllocationCallbacks* allocator) {
  Device& device = DeviceOf(handle);
  // Taken first: once it is free, the driver may give the handle to another thread.
  const std::uint64_t bytes = memory != VkDeviceMemory{} ? device.memory.Take(KeyOf(memory)) : 0;
  device.next.FreeMemory(handle, memory, allocator);
  GiveBack(bytes);
}

// -- What programs are shown -----------------------------------------------------------------------------------------

weir_shim_memory UsedMemory() {
  weir_shim_memory use{};
  if (const weir_vulkan_hooks* hooks = Hooks()) {
    const InShim in_shim;
    hooks->used_memory(&use);
  }
  return use;
}

void ShowLimit(VkPhysicalDeviceMemoryProperties& properties, std::uint64_t limit) {
  for (std::uint32_t heap = 0; heap < std::min(properties.memoryHeapCount, VK_MAX_MEMORY_HEAPS); ++heap)
    if (VkMemoryHeap& one = properties.memoryHeaps[heap]; (one.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
      one.size = std::min<VkDeviceSize>(one.size, limit);
}

/// A budget is what the process has already and may still get. Vulkan forbids a budget of 0, and one above the heap's
/// size; the driver has written none if it is 0.
void ShowRoom(const VkPhysicalDeviceMemoryProperties& properties, const weir_shim_memory& use,
              VkPhysicalDeviceMemoryBudgetPropertiesEXT& budget) {
  const VkDeviceSize room = use.limit - std::min(use.limit, use.held);
  for (std::uint32_t heap = 0; heap < std::min(properties.memoryHeapCount, VK_MAX_MEMORY_HEAPS); ++heap) {
    VkDeviceSize& one = budget.heapBudget[heap];
    if ((properties.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0 || one == 0) continue;
    const VkDeviceSize most = std::min<VkDeviceSize>(budget.heapUsage[heap] + room, use.limit);
    one = std::min(one, std::max<VkDeviceSize>(most, 1));
  }
}

VKAPI_ATTR void VKAPI_CALL GetMemory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties* properties) {
  instances.Find(DispatchOf(physical))->get_memory(physical, properties);
  if (const weir_shim_memory use = UsedMemory(); use.limit != 0) ShowLimit(*properties, use.limit);
}

template <auto kNext>
VKAPI_ATTR void VKAPI_CALL GetMemory2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2* properties) {
  (instances.Find(DispatchOf(physical))->*kNext)(physical, properties);
  const weir_shim_memory use = UsedMemory();
  if (use.limit == 0) return;
  for (auto* at = static_cast<VkBaseOutStructure*>(properties->pNext); at != nullptr; at = at->pNext)
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
      ShowRoom(properties->memoryProperties, use, *reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(at));
  ShowLimit(properties->memoryProperties, use.limit);
}

}  // namespace

const PFN_vkAllocateMemory kOurAllocateMemory = &AllocateMemory;
const PFN_vkFreeMemory kOurFreeMemory = &FreeMemory;

void ReleaseLeftMemory(Device& device) { GiveBack(device.memory.TakeAll()); }

PFN_vkVoidFunction MemoryHook(const Instance& instance, const char* name) {
  const struct {
    const char* name;
    bool known;
    PFN_vkVoidFunction function;
  } hooks[] = {
      {"vkGetPhysicalDeviceMemoryProperties", instance.get_memory != nullptr,
       reinterpret_cast<PFN_vkVoidFunction>(&GetMemory)},
      {"vkGetPhysicalDeviceMemoryProperties2", instance.get_memory2 != nullptr,
       reinterpret_cast<PFN_vkVoidFunction>(&GetMemory2<&Instance::get_memory2>)},
      {"vkGetPhysicalDeviceMemoryProperties2KHR", instance.get_memory2_khr != nullptr,
       reinterpret_cast<PFN_vkVoidFunction>(&GetMemory2<&Instance::get_memory2_khr>)},
  };
  for (const auto& hook : hooks)
    if (hook.known && std::strcmp(name, hook.name) == 0) return hook.function;
  return nullptr;
}

}  // namespace weir::shim
