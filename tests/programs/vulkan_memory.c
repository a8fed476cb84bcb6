/* SPDX-License-Identifier: Apache-2.0
 * A Vulkan program for tests: allocates memory of the first device in blocks of one size, as its standard input says.
 * Each line of the input has one line of answer:
 *
 *   fill    allocates blocks until one is refused; the number of blocks
 *   take    allocates one block; Vulkan's result
 *   shared  allocates one block and imports it once more by its descriptor; Vulkan's result
 *   free    frees all blocks; 0
 *   new     destroys the device with all blocks, as a program that ends badly does, and makes another one; 0
 *   info    the size of the device's heap, the budget, and the use, in bytes
 *
 *   vulkan_memory MIB      MIB: size of a block
 *
 * Exits with 1 when a call fails whose result is no answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum { kBlocksMax = 4096 };

static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkDeviceMemory blocks[kBlocksMax];
static int count;
static uint32_t type;

static void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", what, (int)result);
  exit(1);
}

static void make_instance(void) {
  const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
  const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
  check(vkCreateInstance(&info, NULL, &instance), "vkCreateInstance");
  uint32_t found = 1;
  const VkResult result = vkEnumeratePhysicalDevices(instance, &found, &physical);
  if (found == 0 || (result != VK_SUCCESS && result != VK_INCOMPLETE)) check(VK_ERROR_INITIALIZATION_FAILED, "devices");
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  while (type < memory.memoryTypeCount &&
         (memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) == 0)
    ++type;
  if (type == memory.memoryTypeCount) check(VK_ERROR_INITIALIZATION_FAILED, "no memory of the device");
}

static void make_device(void) {
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  const char* extensions[] = {"VK_KHR_external_memory_fd"};
  const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .queueCreateInfoCount = 1,
                                   .pQueueCreateInfos = &queue,
                                   .enabledExtensionCount = 1,
                                   .ppEnabledExtensionNames = extensions};
  check(vkCreateDevice(physical, &info, NULL, &device), "vkCreateDevice");
}

static VkResult take(VkDeviceSize bytes, const void* chain) {
  if (count == kBlocksMax) return VK_ERROR_TOO_MANY_OBJECTS;
  const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = chain,
                                     .allocationSize = bytes,
                                     .memoryTypeIndex = type};
  const VkResult result = vkAllocateMemory(device, &info, NULL, &blocks[count]);
  if (result == VK_SUCCESS) ++count;
  return result;
}

static VkResult take_shared(VkDeviceSize bytes) {
  const VkExportMemoryAllocateInfo export = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                             .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  const VkResult result = take(bytes, &export);
  if (result != VK_SUCCESS) return result;
  const PFN_vkGetMemoryFdKHR get = (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(device, "vkGetMemoryFdKHR");
  const VkMemoryGetFdInfoKHR from = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                     .memory = blocks[count - 1],
                                     .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkImportMemoryFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                    .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  check(get(device, &from, &import.fd), "vkGetMemoryFdKHR");
  return take(bytes, &import);
}

static void free_all(void) {
  while (count > 0) vkFreeMemory(device, blocks[--count], NULL);
}

static void say_info(void) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                              .pNext = &budget};
  vkGetPhysicalDeviceMemoryProperties2(physical, &memory);
  const uint32_t heap = memory.memoryProperties.memoryTypes[type].heapIndex;
  printf("%llu %llu %llu\n", (unsigned long long)memory.memoryProperties.memoryHeaps[heap].size,
         (unsigned long long)budget.heapBudget[heap], (unsigned long long)budget.heapUsage[heap]);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const VkDeviceSize bytes = (VkDeviceSize)atoi(argv[1]) << 20;
  make_instance();
  make_device();
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    const int before = count;
    if (strcmp(line, "fill\n") == 0) {
      while (take(bytes, NULL) == VK_SUCCESS) {
      }
      printf("%d\n", count - before);
    } else if (strcmp(line, "take\n") == 0) {
      printf("%d\n", (int)take(bytes, NULL));
    } else if (strcmp(line, "shared\n") == 0) {
      printf("%d\n", (int)take_shared(bytes));
    } else if (strcmp(line, "free\n") == 0) {
      free_all();
      puts("0");
    } else if (strcmp(line, "new\n") == 0) {
      count = 0;
      vkDestroyDevice(device, NULL);
      make_device();
      puts("0");
    } else if (strcmp(line, "info\n") == 0) {
      say_info();
    } else {
      return 2;
    }
    fflush(stdout);
  }
  free_all();
  vkDestroyDevice(device, NULL);
  vkDestroyInstance(instance, NULL);
  return 0;
}
