// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "shim/common/open_shim.h"
#include "shim/vulkan/layer_threads.h"

namespace weir::shim {

constinit HandleTable<Instance> instances;
constinit HandleTable<Device> devices;
constinit HandleTable<Window> windows;

namespace {

constexpr weir_vulkan_hooks kNothing{};

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name);

template <typename Function>
PFN_vkVoidFunction AsVoid(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

/// The loader's link to the next layer; null: the create info has none. Not const, because each layer advances the link
/// in the loader's own structure.
template <typename Link, typename Info>
Link* FindLink(const Info* info, VkStructureType type, VkLayerFunction function) {
  for (auto* at = static_cast<const VkBaseInStructure*>(info->pNext); at != nullptr; at = at->pNext) {
    auto* link = reinterpret_cast<Link*>(const_cast<VkBaseInStructure*>(at));
    if (at->sType == type && link->function == function) return link;
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                              VkInstance* instance) {
  auto* link =
      FindLink<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO, VK_LAYER_LINK_INFO);
  if (link == nullptr || link->u.pLayerInfo == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
  if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const VkResult result = create(info, allocator, instance);
  if (result != VK_SUCCESS) return result;
  // If two manifests put the layer into the chain twice, the inner one does the work.
  if (get == &GetInstanceProcAddr) return result;
  std::unique_ptr<Instance> made(new (std::nothrow) Instance);
  const auto next = [&](const char* name) { return get(*instance, name); };
  const auto destroy = reinterpret_cast<PFN_vkDestroyInstance>(next("vkDestroyInstance"));
  const bool since_1_1 = info->pApplicationInfo != nullptr && info->pApplicationInfo->apiVersion >= VK_API_VERSION_1_1;
  if (made != nullptr) {
    *made = {
        .handle = *instance,
        .get = get,
        .destroy = destroy,
        .create_device = reinterpret_cast<PFN_vkCreateDevice>(next("vkCreateDevice")),
        .destroy_surface = reinterpret_cast<PFN_vkDestroySurfaceKHR>(next("vkDestroySurfaceKHR")),
        .get_properties = reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(next("vkGetPhysicalDeviceProperties")),
        .get_properties2 =
            since_1_1 ? reinterpret_cast<PFN_vkGetPhysicalDeviceProperties2>(next("vkGetPhysicalDeviceProperties2"))
                      : nullptr,
        .get_queue_families = reinterpret_cast<PFN_vkGetPhysicalDeviceQueueFamilyProperties>(
            next("vkGetPhysicalDeviceQueueFamilyProperties")),
        .get_memory =
            reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties>(next("vkGetPhysicalDeviceMemoryProperties")),
        .get_memory2 =
            reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties2>(next("vkGetPhysicalDeviceMemoryProperties2")),
        .get_memory2_khr = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties2KHR>(
            next("vkGetPhysicalDeviceMemoryProperties2KHR"))};
    if (instances.Add(DispatchOf(*instance), made.get())) {
      Hooks();  // opens the shim while the program's heap is still small (gl/preload_present.c)
      return static_cast<void>(made.release()), VK_SUCCESS;
    }
  }
  if (destroy != nullptr) destroy(*instance, allocator);
  return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  if (instance == VK_NULL_HANDLE) return;
  const std::unique_ptr<Instance> known(instances.Take(DispatchOf(instance)));
  if (known != nullptr && known->destroy != nullptr) known->destroy(instance, allocator);
}

VKAPI_ATTR void VKAPI_CALL DestroySurface(VkInstance instance, VkSurfaceKHR surface,
                                          const VkAllocationCallbacks* allocator) {
  const Instance* known = instances.Find(DispatchOf(instance));
  if (const weir_vulkan_hooks* hooks = Hooks(); hooks != nullptr && surface != VK_NULL_HANDLE) {
    const InShim in_shim;
    hooks->forget_window(KeyOf(surface));
  }
  known->destroy_surface(instance, surface, allocator);
}

PhysicalDevice Identify(const Instance& instance, VkPhysicalDevice physical, std::uint32_t api_version) {
  if (instance.get_properties2 != nullptr && api_version >= VK_API_VERSION_1_1) {
    VkPhysicalDeviceIDProperties id{};
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &id;
    instance.get_properties2(physical, &properties);
    PhysicalDevice identified;
    std::copy_n(id.deviceUUID, identified.uuid.size(), identified.uuid.begin());
    if (identified != PhysicalDevice{}) return identified;
  }
  return {.handle = KeyOf(physical)};
}

/// Sets what does not change during the device's life, and looks up every function of the next layer.
void FillIn(Device& device, const Instance& instance, VkPhysicalDevice physical) {
  const auto next = [&](const char* name) { return device.get(device.handle, name); };
#define WEIR_RESOLVE(name) device.next.name = reinterpret_cast<PFN_vk##name>(next("vk" #name));
  WEIR_VULKAN_HOOKED(WEIR_RESOLVE)
  WEIR_VULKAN_CALLED(WEIR_RESOLVE)
#undef WEIR_RESOLVE
  VkPhysicalDeviceProperties properties{};
  if (instance.get_properties != nullptr) instance.get_properties(physical, &properties);
  std::memcpy(device.renderer, properties.deviceName, sizeof device.renderer - 1);
  std::uint32_t count = Device::kFamilies;
  std::array<VkQueueFamilyProperties, Device::kFamilies> families{};
  if (instance.get_queue_families != nullptr) instance.get_queue_families(physical, &count, families.data());
  std::uint32_t bits = 0;  // that the timestamps of all queues have
  for (std::uint32_t i = 0; i < count && i < Device::kFamilies; ++i) {
    const std::uint32_t valid = families[i].timestampValidBits;
    device.families[i] = {families[i].queueFlags, valid};
    if (valid != 0) bits = bits == 0 ? valid : std::min(bits, valid);
  }
  if (bits != 0)
    device.clock = DeviceClock::Of(Identify(instance, physical, properties.apiVersion),
                                   {bits, static_cast<double>(properties.limits.timestampPeriod)});
  VkPhysicalDeviceMemoryProperties memory{};
  if (instance.get_memory != nullptr) instance.get_memory(physical, &memory);
  device.memory.Describe(memory);
  if (const weir_vulkan_hooks* hooks = Hooks()) {
    const InShim in_shim;
    hooks->use_devices(DeviceClock::InUse());
  }
  device.place = {.key = &device,
                  .renderer = device.renderer,
                  .is_cpu = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? 1 : 0,
                  .has_timestamps = device.clock != nullptr ? 1 : 0};
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkDevice* device) {
  constexpr VkStructureType kType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO;
  auto* link = FindLink<VkLayerDeviceCreateInfo>(info, kType, VK_LAYER_LINK_INFO);
  const auto* callback = FindLink<VkLayerDeviceCreateInfo>(info, kType, VK_LOADER_DATA_CALLBACK);
  const Instance* instance = instances.Find(DispatchOf(physical));
  if (link == nullptr || link->u.pLayerInfo == nullptr || instance == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetDeviceProcAddr get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  if (get == &GetDeviceProcAddr) return CreateDevice(physical, info, allocator, device);  // the inner of two
  // The function was looked up when the instance was created. For a lookup now, a loader may give the last layer the
  // first function of the chain.
  if (instance->create_device == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const DriverThreads before;
  const VkResult result = instance->create_device(physical, info, allocator, device);
  if (result != VK_SUCCESS) return result;
  std::unique_ptr<Device> made(new (std::nothrow) Device);
  const auto destroy = reinterpret_cast<PFN_vkDestroyDevice>(get(*device, "vkDestroyDevice"));
  if (made != nullptr) {
    made->handle = *device;
    made->get = get;
    made->set_loader_data = callback != nullptr ? callback->u.pfnSetDeviceLoaderData : nullptr;
    FillIn(*made, *instance, physical);
    if (std::strstr(made->renderer, "llvmpipe") != nullptr && Hooks() != nullptr) before.NameNewWorkers();
    if (devices.Add(DispatchOf(*device), made.get())) return static_cast<void>(made.release()), VK_SUCCESS;
  }
  if (destroy != nullptr) destroy(*device, allocator);
  return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (device == VK_NULL_HANDLE) return;
  const std::unique_ptr<Device> known(devices.Take(DispatchOf(device)));
  if (known == nullptr) return;
  DestroyTimers(*known);
  known->next.DestroyDevice(device, allocator);
  ReleaseLeftMemory(*known);
}

/// The layer's device function with that name; null: the layer does not hook it.
PFN_vkVoidFunction DeviceHook(const char* name) {
  if (std::strncmp(name, "vk", 2) != 0) return nullptr;
  struct Hook {
    const char* name;
    PFN_vkVoidFunction function;
  };
  static const Hook kHooks[] = {
#define WEIR_HOOK(hooked) {#hooked, AsVoid(kOur##hooked)},
      WEIR_VULKAN_HOOKED(WEIR_HOOK)
#undef WEIR_HOOK
  };
  for (const Hook& hook : kHooks)
    if (std::strcmp(name + 2, hook.name) == 0) return hook.function;
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name) {
  if (device == VK_NULL_HANDLE || name == nullptr) return nullptr;
  const Device* known = devices.Find(DispatchOf(device));
  if (known == nullptr) return nullptr;
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return AsVoid(&GetDeviceProcAddr);
  const PFN_vkVoidFunction theirs = known->get(device, name);
  const PFN_vkVoidFunction ours = theirs != nullptr ? DeviceHook(name) : nullptr;
  return ours != nullptr ? ours : theirs;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name) {
  if (name == nullptr) return nullptr;
  if (std::strcmp(name, "vkGetInstanceProcAddr") == 0) return AsVoid(&GetInstanceProcAddr);
  if (std::strcmp(name, "vkCreateInstance") == 0) return AsVoid(&CreateInstance);
  // Layers above this one may ask for these without an instance, as MangoHud does.
  if (std::strcmp(name, "vkDestroyInstance") == 0) return AsVoid(&DestroyInstance);
  if (std::strcmp(name, "vkCreateDevice") == 0) return AsVoid(&CreateDevice);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return AsVoid(&GetDeviceProcAddr);
  const Instance* known = instance != VK_NULL_HANDLE ? instances.Find(DispatchOf(instance)) : nullptr;
  if (known == nullptr) return nullptr;
  if (std::strcmp(name, "vkDestroySurfaceKHR") == 0 && known->destroy_surface != nullptr)
    return AsVoid(&DestroySurface);
  if (const PFN_vkVoidFunction memory = MemoryHook(*known, name)) return memory;
  const PFN_vkVoidFunction theirs = known->get(instance, name);
  const PFN_vkVoidFunction ours = theirs != nullptr ? DeviceHook(name) : nullptr;
  return ours != nullptr ? ours : theirs;
}

void* Symbol(void* handle, const char* name) { return ::dlsym(handle, name); }

}  // namespace

const PFN_vkDestroyDevice kOurDestroyDevice = &DestroyDevice;

const weir_vulkan_hooks* Hooks() {
  static constinit std::atomic<const weir_vulkan_hooks*> opened{nullptr};
  const weir_vulkan_hooks* hooks = opened.load(std::memory_order_acquire);
  if (hooks == nullptr) {
    const InShim in_shim;
    hooks = static_cast<const weir_vulkan_hooks*>(
        weir_open_shim("weir_vulkan_shim_hooks", WEIR_VULKAN_HOOKS_VERSION, &Symbol));
    if (hooks == nullptr) hooks = &kNothing;
    opened.store(hooks, std::memory_order_release);  // two threads that open the shim at once get the same value
  }
  return hooks == &kNothing ? nullptr : hooks;
}

InShim::InShim() : error_number_(errno) { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_); }
InShim::~InShim() {
  ::pthread_setcancelstate(cancel_state_, nullptr);
  errno = error_number_;
}

}  // namespace weir::shim

/// The only export, which the manifest names. The loader receives the layer's lookup functions from it.
extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
weir_vulkan_negotiate(VkNegotiateLayerInterface* layer) {
  constexpr std::uint32_t kInterface = 2;
  if (layer == nullptr || layer->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT) return VK_ERROR_INITIALIZATION_FAILED;
  if (layer->loaderLayerInterfaceVersion < kInterface) return VK_ERROR_INITIALIZATION_FAILED;
  layer->loaderLayerInterfaceVersion = kInterface;
  layer->pfnGetInstanceProcAddr = &weir::shim::GetInstanceProcAddr;
  layer->pfnGetDeviceProcAddr = &weir::shim::GetDeviceProcAddr;
  layer->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
