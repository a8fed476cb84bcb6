// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/device.h"

#include <algorithm>
#include <cstdlib>

#include "opencl/icd/info.h"
#include "opencl/icd/platform.h"

namespace weir::opencl::icd {

Device::Device(Link* of, std::uint32_t executors_id, bool in_arena, FactTable table, Device* part_of)
    : Object(kKind, of), facts(std::move(table)), parent(part_of), shares_arena(in_arena) {
  id = executors_id;
  type = facts.Get<cl_device_type>(CL_DEVICE_TYPE);
  work_group_size_max = facts.Get<std::size_t>(CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
  const std::string* sizes = facts.Find(CL_DEVICE_MAX_WORK_ITEM_SIZES);
  work_item_sizes.assign(3, 1);
  if (sizes != nullptr && sizes->size() >= 3 * sizeof(std::size_t)) {
    work_item_sizes.resize(sizes->size() / sizeof(std::size_t));
    std::memcpy(work_item_sizes.data(), sizes->data(), work_item_sizes.size() * sizeof(std::size_t));
  }
  const auto dimensions = facts.Get<cl_uint>(CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 3);
  work_item_sizes.resize(std::clamp<std::size_t>(dimensions, 1, 3), 1);
  non_uniform_groups = facts.Get<cl_bool>(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) != CL_FALSE;
  images = facts.Get<cl_bool>(CL_DEVICE_IMAGE_SUPPORT) != CL_FALSE;
  address_max = facts.Get<cl_uint>(CL_DEVICE_ADDRESS_BITS, 64) == 32 ? UINT32_MAX : UINT64_MAX;
  allocation_max = facts.Get<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE, UINT64_MAX);
  base_alignment = std::max<std::uint64_t>(facts.Get<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN, 8) / 8, 1);
  queue_properties = facts.Get<cl_command_queue_properties>(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES);
}

void Device::End(Device* device) {
  // The platform's devices live as long as their connection.
  if (!device->parent) return;
  device->link->Release(device->id);
  delete device;
}

Device* MakeDevice(Link& link, const wire::DeviceFacts& facts, Device* parent) {
  const char* type = std::getenv("WEIR_OPENCL_DEVICE_TYPE");
  const FactRules rules{.memory_bytes = link.memory_bytes(),
                        .as_gpu = type != nullptr && std::string_view(type) == "gpu"};
  return new Device(&link, facts.id, facts.shares_arena != 0, OurFacts(FactTable(facts.facts), rules), parent);
}

namespace {

/// The maximum number of sub-devices of a partition, for which ids are reserved; 0: invalid properties.
std::uint32_t PartsAtMost(const Device& device, const cl_device_partition_property* properties, std::size_t length) {
  const std::uint32_t units = std::max(device.facts.Get<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS, 1), 1U);
  switch (properties[0]) {
    case CL_DEVICE_PARTITION_EQUALLY:
      return length >= 3 && properties[1] > 0
                 ? units / static_cast<std::uint32_t>(std::min<std::intptr_t>(properties[1], units))
                 : 0;
    case CL_DEVICE_PARTITION_BY_COUNTS: return static_cast<std::uint32_t>(length);
    case CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN: return units;
    default: return 0;
  }
}

/// The length of the list including its first zero. That of a list of counts is
/// CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, and another zero follows: the executor adds it.
std::size_t LengthOf(const cl_device_partition_property* properties) {
  constexpr std::size_t kMost = 4096;
  std::size_t n = 0;
  while (n < kMost && properties[n] != 0) ++n;
  return n + 1;
}

}  // namespace

namespace api {

cl_int GetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id* devices,
                    cl_uint* count_ret) {
  if (platform != nullptr && As<Platform>(platform) == nullptr) return CL_INVALID_PLATFORM;
  if ((count == 0 && devices != nullptr) || (devices == nullptr && count_ret == nullptr)) return CL_INVALID_VALUE;
  constexpr cl_device_type kTypes = CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU |
                                    CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_CUSTOM;
  if (type != CL_DEVICE_TYPE_ALL && ((type & ~kTypes) != 0 || type == 0)) return CL_INVALID_DEVICE_TYPE;
  const Link* link = Link::Current();
  cl_uint found = 0;
  if (link != nullptr) {
    for (Device* device : link->devices()) {
      const bool is_default = device == link->devices().front();
      const bool fits = type == CL_DEVICE_TYPE_ALL
                            ? device->type != CL_DEVICE_TYPE_CUSTOM
                            : (device->type & type & ~cl_device_type{CL_DEVICE_TYPE_DEFAULT}) != 0 ||
                                  ((type & CL_DEVICE_TYPE_DEFAULT) != 0 && is_default);
      if (!fits) continue;
      if (devices != nullptr && found < count) devices[found] = reinterpret_cast<cl_device_id>(device);
      ++found;
    }
  }
  if (count_ret != nullptr) *count_ret = found;
  return found == 0 ? CL_DEVICE_NOT_FOUND : CL_SUCCESS;
}

cl_int GetDeviceInfo(cl_device_id handle, cl_device_info name, std::size_t size, void* value, std::size_t* size_ret) {
  const Device* device = As<Device>(handle);
  if (device == nullptr) return CL_INVALID_DEVICE;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_DEVICE_PLATFORM: return answer.Value(PlatformHandle());
    case CL_DEVICE_PARENT_DEVICE: return answer.Object<cl_device_id>(device->parent.get());
    case CL_DEVICE_REFERENCE_COUNT:
      return answer.Value(static_cast<cl_uint>(device->parent ? device->references.load() : 1));
    case CL_DEVICE_AVAILABLE: return answer.Value(static_cast<cl_bool>(device->link->usable() ? CL_TRUE : CL_FALSE));
    default: break;
  }
  const std::string* fact = device->facts.Find(name);
  return fact == nullptr ? CL_INVALID_VALUE : answer.Bytes(fact->data(), fact->size());
}

cl_int RetainDevice(cl_device_id handle) {
  const Device* device = As<Device>(handle);
  if (device == nullptr) return CL_INVALID_DEVICE;
  return device->parent ? RetainHandle<Device>(handle, CL_INVALID_DEVICE) : CL_SUCCESS;
}

cl_int ReleaseDevice(cl_device_id handle) {
  const Device* device = As<Device>(handle);
  if (device == nullptr) return CL_INVALID_DEVICE;
  return device->parent ? ReleaseHandle<Device>(handle, CL_INVALID_DEVICE) : CL_SUCCESS;
}

cl_int CreateSubDevices(cl_device_id handle, const cl_device_partition_property* properties, cl_uint count,
                        cl_device_id* devices, cl_uint* count_ret) {
  Device* device = As<Device>(handle);
  if (device == nullptr) return CL_INVALID_DEVICE;
  if (properties == nullptr || properties[0] == 0 || (count == 0 && devices != nullptr)) return CL_INVALID_VALUE;
  const std::string* known = device->facts.Find(CL_DEVICE_PARTITION_PROPERTIES);
  bool supported = false;
  for (std::size_t at = 0; known != nullptr && at + sizeof(properties[0]) <= known->size(); at += sizeof(properties[0]))
    supported = supported || std::memcmp(known->data() + at, properties, sizeof(properties[0])) == 0;
  if (!supported) return CL_INVALID_VALUE;
  const std::size_t length = LengthOf(properties);
  const std::uint32_t at_most = PartsAtMost(*device, properties, length);
  if (at_most == 0)
    return properties[0] == CL_DEVICE_PARTITION_EQUALLY ? CL_INVALID_VALUE : CL_INVALID_DEVICE_PARTITION_COUNT;

  Link& link = *device->link;
  static_assert(sizeof(cl_device_partition_property) == sizeof(std::uint64_t));
  wire::CreateSubDevices request{.device = device->id,
                                 .properties = {reinterpret_cast<const std::uint64_t*>(properties), length}};
  {
    Link::Sending sending(link);
    if (!sending.usable()) return kGone;
    request.first = sending.NewIds(at_most);
  }
  Answer answer;
  const cl_int error = link.Ask(request, answer);
  wire::SubDeviceFacts parts;
  wire::FieldReader reader(answer.body);
  if (error == CL_SUCCESS) wire::SubDeviceFacts::Fields(parts, reader);
  const auto made = static_cast<cl_uint>(parts.devices.size());
  {
    Link::Sending sending(link);
    for (std::uint32_t unused = made; unused < at_most && sending.usable(); ++unused)
      sending.FreeId(request.first + unused);
  }
  if (error != CL_SUCCESS) return error;
  if (count_ret != nullptr) *count_ret = made;
  const bool wanted = devices != nullptr && count >= made;
  for (cl_uint i = 0; i < made; ++i) {
    if (wanted)
      devices[i] = reinterpret_cast<cl_device_id>(MakeDevice(link, parts.devices[i], device));
    else
      link.Release(parts.devices[i].id);
  }
  return devices != nullptr && count < made ? CL_INVALID_VALUE : CL_SUCCESS;
}

}  // namespace api
}  // namespace weir::opencl::icd
