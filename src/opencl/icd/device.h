// SPDX-License-Identifier: Apache-2.0
// A device or a sub-device, with its facts.
#pragma once

#include "opencl/icd/facts.h"
#include "opencl/icd/link.h"

namespace weir::opencl::icd {

struct Device : Object {
  static constexpr Kind kKind = Kind::kDevice;
  /// `facts` are already filtered.
  Device(Link* of, std::uint32_t executors_id, bool in_arena, FactTable table, Device* part_of);
  static void End(Device* device);

  FactTable facts;
  Ref<Device> parent;
  bool shares_arena = false;
  cl_device_type type = 0;
  std::size_t work_group_size_max = 0;
  std::vector<std::size_t> work_item_sizes;
  bool non_uniform_groups = false;
  bool images = false;
  std::uint64_t address_max = 0;  // maximum of a size_t on the device
  std::uint64_t allocation_max = 0;
  std::uint64_t base_alignment = 1;  // in bytes, for a sub-buffer's origin
  cl_command_queue_properties queue_properties = 0;
};

/// Converts the executor's facts of a device to what programs see.
Device* MakeDevice(Link& link, const wire::DeviceFacts& facts, Device* parent);

}  // namespace weir::opencl::icd
