// SPDX-License-Identifier: Apache-2.0
// Memory that a program allocates through the layer, and what it is shown of the device's memory.
#include <gtest/gtest.h>

#include <vector>

#include "tests/shim/vulkan_layer_fixture.h"

namespace weir {
namespace {

constexpr std::uint64_t kLimit = kSlotBytes.count, kQuarter = kLimit / 4;
constexpr std::uint32_t kOfDevice = 0, kOfHost = 1;  // types of the fake driver's memory

class VulkanLayerMemory : public VulkanLayer {
 protected:
  VulkanLayerMemory() {
    fake_vulkan.heap_used = fake_vulkan.allocations = fake_vulkan.frees = 0;
    fake_vulkan.memory_result = VK_SUCCESS;
    Limit(1);
    Attach();
  }
  ~VulkanLayerMemory() override {
    for (const VkDeviceMemory memory : all_) Free(memory);
    Limit(0);
  }
  void Limit(std::uint32_t slots) {
    host_.With([slots](gate::VgpuGate& gate) { gate.Publish({.memory_limit_slots = slots}); });
  }
  VkResult AllocateFrom(VkDevice device, std::uint64_t bytes, std::uint32_t type, const void* chain,
                        VkDeviceMemory& memory) {
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = chain;
    info.allocationSize = bytes;
    info.memoryTypeIndex = type;
    return shared_.chain->Get<PFN_vkAllocateMemory>(device, "vkAllocateMemory")(device, &info, nullptr, &memory);
  }
  VkResult Allocate(std::uint64_t bytes, std::uint32_t type = kOfDevice, const void* chain = nullptr) {
    VkDeviceMemory memory = VK_NULL_HANDLE;
    const VkResult result = AllocateFrom(device_, bytes, type, chain, memory);
    if (result == VK_SUCCESS) all_.push_back(memory);
    return result;
  }
  void Free(VkDeviceMemory memory) { Call<PFN_vkFreeMemory>("vkFreeMemory")(device_, memory, nullptr); }
  /// How many quarters of the limit it gets.
  int Fill() {
    int quarters = 0;
    while (quarters < 10 && Allocate(kQuarter) == VK_SUCCESS) ++quarters;
    return quarters;
  }
  std::uint64_t Held() {
    return host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->ProgramMemory().count; });
  }
  struct Shown {
    std::uint64_t heap, host_heap, budget, host_budget;
  };
  Shown Show() {
    const auto physical =
        testing::fake::MakeHandle<VkPhysicalDevice>(testing::fake::ObjectOf(shared_.instance).dispatch, 0);
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    VkPhysicalDeviceMemoryProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    properties.pNext = &budget;
    OfInstance<PFN_vkGetPhysicalDeviceMemoryProperties2>("vkGetPhysicalDeviceMemoryProperties2")(physical, &properties);
    VkPhysicalDeviceMemoryProperties older{};
    OfInstance<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(physical, &older);
    const VkMemoryHeap* heaps = properties.memoryProperties.memoryHeaps;
    EXPECT_EQ(heaps[0].size, older.memoryHeaps[0].size);
    EXPECT_EQ(heaps[1].size, older.memoryHeaps[1].size);
    return {heaps[0].size, heaps[1].size, budget.heapBudget[0], budget.heapBudget[1]};
  }
  template <typename Function>
  Function OfInstance(const char* name) {
    return shared_.chain->Get<Function>(shared_.instance, name);
  }

  std::vector<VkDeviceMemory> all_;
};

TEST_F(VulkanLayerMemory, IsGrantedUpToTheLimit) {
  EXPECT_EQ(Fill(), 4);
  EXPECT_EQ(Held(), kLimit);
  EXPECT_EQ(Allocate(1), VK_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(fake_vulkan.allocations, 4) << "the driver is not asked";
  Free(all_.back());
  all_.pop_back();
  EXPECT_EQ(Allocate(kQuarter), VK_SUCCESS);
  EXPECT_EQ(Allocate(1), VK_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(VulkanLayerMemory, OfTheHostIsNotCounted) {
  EXPECT_EQ(Allocate(2 * kLimit, kOfHost), VK_SUCCESS);
  EXPECT_EQ(Held(), 0U);
  EXPECT_EQ(Fill(), 4);
}

TEST_F(VulkanLayerMemory, ThatIsImportedIsNotCounted) {
  VkImportMemoryFdInfoKHR import{};
  import.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  import.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkImportMemoryHostPointerInfoEXT pointer{};
  pointer.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  pointer.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkMemoryDedicatedAllocateInfo dedicated{};
  dedicated.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
  dedicated.pNext = &import;
  EXPECT_EQ(Allocate(kQuarter, kOfDevice, &dedicated), VK_SUCCESS);
  EXPECT_EQ(Allocate(kQuarter, kOfDevice, &pointer), VK_SUCCESS);
  EXPECT_EQ(Held(), 0U);
  import.handleType = {};  // Vulkan: nothing is imported
  EXPECT_EQ(Allocate(kQuarter, kOfDevice, &dedicated), VK_SUCCESS);
  EXPECT_EQ(Held(), kQuarter);
}

TEST_F(VulkanLayerMemory, ThatTheDriverRefusesIsNotHeld) {
  fake_vulkan.memory_result = VK_ERROR_OUT_OF_HOST_MEMORY;
  EXPECT_EQ(Allocate(kQuarter), VK_ERROR_OUT_OF_HOST_MEMORY);
  EXPECT_EQ(Held(), 0U);
  fake_vulkan.memory_result = VK_SUCCESS;
  EXPECT_EQ(Fill(), 4);
}

TEST_F(VulkanLayerMemory, IsGivenBackWithTheDevice) {
  const VkDevice other = shared_.chain->MakeDevice(shared_.instance);
  VkDeviceMemory left = VK_NULL_HANDLE;
  EXPECT_EQ(AllocateFrom(other, kLimit, kOfDevice, nullptr, left), VK_SUCCESS);
  EXPECT_EQ(Allocate(kQuarter), VK_ERROR_OUT_OF_DEVICE_MEMORY) << "devices of a process share the limit";
  shared_.chain->Get<PFN_vkDestroyDevice>(other, "vkDestroyDevice")(other, nullptr);
  EXPECT_EQ(Held(), 0U);
  EXPECT_EQ(Fill(), 4);
}

TEST_F(VulkanLayerMemory, NullMayBeFreed) {
  Free(VK_NULL_HANDLE);
  EXPECT_EQ(fake_vulkan.frees, 1);
}

TEST_F(VulkanLayerMemory, ProgramsAreShownTheVgpus) {
  fake_vulkan.heap_used = kQuarter + 4096;  // and a little that the driver needs itself
  EXPECT_EQ(Allocate(kQuarter), VK_SUCCESS);
  const Shown shown = Show();
  EXPECT_EQ(shown.heap, kLimit);
  EXPECT_EQ(shown.budget, kLimit) << "3 quarters are free, and no budget is above the heap's size";
  EXPECT_EQ(shown.host_heap, fake_vulkan.heap_bytes);
  EXPECT_EQ(shown.host_budget, fake_vulkan.heap_used + fake_vulkan.heap_free);
  fake_vulkan.heap_used = 0;
  EXPECT_EQ(Show().budget, 3 * kQuarter);
  EXPECT_EQ(Fill(), 3);
  EXPECT_EQ(Show().budget, 1U) << "Vulkan forbids a budget of 0";
  fake_vulkan.heap_free = 5;
  fake_vulkan.heap_used = kLimit;
  Limit(2);
  EXPECT_EQ(Show().heap, 2 * kLimit);
  EXPECT_EQ(Show().budget, kLimit + 5) << "the card is nearly full";
  fake_vulkan.heap_free = 1ULL << 30;
  Limit(0);
  EXPECT_EQ(Show().heap, fake_vulkan.heap_bytes);
  EXPECT_EQ(Show().budget, fake_vulkan.heap_used + fake_vulkan.heap_free);
}

TEST_F(VulkanLayerMemory, FunctionsThatTheDriverLacksStayAbsent) {
  EXPECT_EQ(OfInstance<PFN_vkVoidFunction>("vkGetPhysicalDeviceMemoryProperties2KHR"), nullptr);
}

}  // namespace
}  // namespace weir
