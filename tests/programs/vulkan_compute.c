/* SPDX-License-Identifier: Apache-2.0
 * A Vulkan program that computes and never presents: submits work, and waits for each submit's fence.
 *
 *   vulkan_compute [--rounds N] [--submits N] [--timeline] [--instances N] [--leak] [--vulkan-1-4]
 *
 * --submits 0 (the default) goes on until it is killed. It prints a line for each second with the submits so far, and
 * at the end `ok`, if every value is what the rounds make of it. --timeline submits each piece of work with a wait for
 * a value that a later call signals. --instances repeats everything with a new instance. --leak leaves a fence when it
 * destroys the device, which the validation layer reports. --vulkan-1-4 asks for that version of Vulkan. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vulkan/vulkan.h>

#include "vulkan_compute_spirv.h"

enum { kValues = 4096 };

typedef struct {
  VkInstance instance;
  VkDevice device;
  VkQueue queue;
  uint32_t family;
  VkPhysicalDevice physical;
  VkBuffer buffer;
  VkDeviceMemory memory;
  uint32_t* values;
  VkDescriptorSetLayout set_layout;
  VkDescriptorPool descriptors;
  VkPipelineLayout layout;
  VkShaderModule shader;
  VkPipeline pipeline;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkFence fence;
  VkSemaphore timeline;
} program;

static void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", what, (int)result);
  exit(1);
}

static uint32_t api_version = VK_API_VERSION_1_2;

static void make_device(program* p) {
  const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = api_version};
  const VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
  check(vkCreateInstance(&instance, NULL, &p->instance), "vkCreateInstance");
  uint32_t count = 1;
  const VkResult found = vkEnumeratePhysicalDevices(p->instance, &count, &p->physical);
  if (count == 0) check(VK_ERROR_INITIALIZATION_FAILED, "no device");
  if (found != VK_INCOMPLETE) check(found, "vkEnumeratePhysicalDevices");
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  VkPhysicalDeviceVulkan12Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                               .timelineSemaphore = VK_TRUE};
  const VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue};
  check(vkCreateDevice(p->physical, &device, NULL, &p->device), "vkCreateDevice");
  vkGetDeviceQueue(p->device, 0, 0, &p->queue);
}

static void make_buffer(program* p) {
  const VkBufferCreateInfo buffer = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = kValues * 4, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  check(vkCreateBuffer(p->device, &buffer, NULL, &p->buffer), "vkCreateBuffer");
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(p->device, p->buffer, &needs);
  VkPhysicalDeviceMemoryProperties types;
  vkGetPhysicalDeviceMemoryProperties(p->physical, &types);
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  uint32_t type = 0;
  while (type < types.memoryTypeCount &&
         ((needs.memoryTypeBits >> type & 1) == 0 || (types.memoryTypes[type].propertyFlags & wanted) != wanted))
    ++type;
  const VkMemoryAllocateInfo memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
  check(vkAllocateMemory(p->device, &memory, NULL, &p->memory), "vkAllocateMemory");
  check(vkBindBufferMemory(p->device, p->buffer, p->memory, 0), "vkBindBufferMemory");
  check(vkMapMemory(p->device, p->memory, 0, VK_WHOLE_SIZE, 0, (void**)&p->values), "vkMapMemory");
  for (uint32_t i = 0; i < kValues; ++i) p->values[i] = i;
}

static void make_pipeline(program* p) {
  const VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                .descriptorCount = 1,
                                                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  const VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  check(vkCreateDescriptorSetLayout(p->device, &set, NULL, &p->set_layout), "vkCreateDescriptorSetLayout");
  const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
  const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = 1,
                                             .pSetLayouts = &p->set_layout,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &push};
  check(vkCreatePipelineLayout(p->device, &layout, NULL, &p->layout), "vkCreatePipelineLayout");
  const VkShaderModuleCreateInfo shader = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = sizeof vulkan_compute_spirv,
                                           .pCode = vulkan_compute_spirv};
  check(vkCreateShaderModule(p->device, &shader, NULL, &p->shader), "vkCreateShaderModule");
  const VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                                .layout = p->layout,
                                                .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                          .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                          .module = p->shader,
                                                          .pName = "main"}};
  check(vkCreateComputePipelines(p->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &p->pipeline), "pipeline");
}

static void record(program* p, uint32_t rounds) {
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
  const VkDescriptorPoolCreateInfo descriptors = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
  check(vkCreateDescriptorPool(p->device, &descriptors, NULL, &p->descriptors), "vkCreateDescriptorPool");
  const VkDescriptorSetAllocateInfo sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorPool = p->descriptors,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &p->set_layout};
  VkDescriptorSet set;
  check(vkAllocateDescriptorSets(p->device, &sets, &set), "vkAllocateDescriptorSets");
  const VkDescriptorBufferInfo whole = {p->buffer, 0, VK_WHOLE_SIZE};
  const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &whole};
  vkUpdateDescriptorSets(p->device, 1, &write, 0, NULL);
  const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  check(vkCreateCommandPool(p->device, &pool, NULL, &p->pool), "vkCreateCommandPool");
  const VkCommandBufferAllocateInfo commands = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = p->pool, .commandBufferCount = 1};
  check(vkAllocateCommandBuffers(p->device, &commands, &p->commands), "vkAllocateCommandBuffers");
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  check(vkBeginCommandBuffer(p->commands, &begin), "vkBeginCommandBuffer");
  vkCmdBindPipeline(p->commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->pipeline);
  vkCmdBindDescriptorSets(p->commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->layout, 0, 1, &set, 0, NULL);
  vkCmdPushConstants(p->commands, p->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &rounds);
  vkCmdDispatch(p->commands, kValues / 64, 1, 1);
  const VkMemoryBarrier seen = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  vkCmdPipelineBarrier(p->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &seen, 0,
                       NULL, 0, NULL);
  check(vkEndCommandBuffer(p->commands), "vkEndCommandBuffer");
  const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  check(vkCreateFence(p->device, &fence, NULL, &p->fence), "vkCreateFence");
  const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  check(vkCreateSemaphore(p->device, &semaphore, NULL, &p->timeline), "vkCreateSemaphore");
}

/* One piece of work. With `value`: it waits for that value of the timeline, which is signalled only after the submit.
 */
static void submit(program* p, uint64_t value) {
  const VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                .waitSemaphoreValueCount = 1,
                                                .pWaitSemaphoreValues = &value};
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  VkSubmitInfo info = {
      .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &p->commands};
  if (value != 0) {
    info.pNext = &values;
    info.waitSemaphoreCount = 1;
    info.pWaitSemaphores = &p->timeline;
    info.pWaitDstStageMask = &stage;
  }
  check(vkQueueSubmit(p->queue, 1, &info, p->fence), "vkQueueSubmit");
  const VkSemaphoreSignalInfo signal = {
      .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = p->timeline, .value = value};
  if (value != 0) check(vkSignalSemaphore(p->device, &signal), "vkSignalSemaphore");
  check(vkWaitForFences(p->device, 1, &p->fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
  check(vkResetFences(p->device, 1, &p->fence), "vkResetFences");
}

static void end(program* p) {
  check(vkDeviceWaitIdle(p->device), "vkDeviceWaitIdle");
  vkDestroySemaphore(p->device, p->timeline, NULL);
  vkDestroyFence(p->device, p->fence, NULL);
  vkDestroyCommandPool(p->device, p->pool, NULL);
  vkDestroyDescriptorPool(p->device, p->descriptors, NULL);
  vkDestroyPipeline(p->device, p->pipeline, NULL);
  vkDestroyShaderModule(p->device, p->shader, NULL);
  vkDestroyPipelineLayout(p->device, p->layout, NULL);
  vkDestroyDescriptorSetLayout(p->device, p->set_layout, NULL);
  vkDestroyBuffer(p->device, p->buffer, NULL);
  vkFreeMemory(p->device, p->memory, NULL);
  vkDestroyDevice(p->device, NULL);
  vkDestroyInstance(p->instance, NULL);
}

static int right(const program* p, uint32_t rounds, uint64_t submits) {
  for (uint32_t i = 0; i < kValues; i += 97) {
    uint32_t value = i;
    for (uint64_t round = 0; round < rounds * submits; ++round) value = value * 1664525u + 1013904223u;
    if (value != p->values[i]) return 0;
  }
  return 1;
}

static int run(uint32_t rounds, uint64_t submits, int timeline, int leak) {
  program p = {0};
  make_device(&p);
  make_buffer(&p);
  make_pipeline(&p);
  record(&p, rounds);
  time_t said = time(NULL);
  for (uint64_t i = 1; submits == 0 || i <= submits; ++i) {
    submit(&p, timeline ? i : 0);
    if (time(NULL) == said) continue;
    said = time(NULL);
    printf("%llu\n", (unsigned long long)i);
    fflush(stdout);
  }
  const int correct = right(&p, rounds, submits);
  if (leak) p.fence = VK_NULL_HANDLE;
  end(&p);
  return correct;
}

int main(int argc, char** argv) {
  uint32_t rounds = 20000, instances = 1;
  uint64_t submits = 0;
  int timeline = 0, leak = 0, correct = 1;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--timeline") == 0)
      timeline = 1;
    else if (strcmp(argv[i], "--leak") == 0)
      leak = 1;
    else if (strcmp(argv[i], "--vulkan-1-4") == 0)
      api_version = VK_MAKE_API_VERSION(0, 1, 4, 0);
    else if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0)
      rounds = (uint32_t)atoi(argv[++i]);
    else if (i + 1 < argc && strcmp(argv[i], "--submits") == 0)
      submits = (uint64_t)atoi(argv[++i]);
    else if (i + 1 < argc && strcmp(argv[i], "--instances") == 0)
      instances = (uint32_t)atoi(argv[++i]);
    else
      return fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  for (uint32_t i = 0; i < instances; ++i) correct &= run(rounds, submits, timeline, leak);
  puts(correct ? "ok" : "wrong values");
  return correct ? 0 : 1;
}
