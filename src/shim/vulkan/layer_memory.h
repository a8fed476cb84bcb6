// SPDX-License-Identifier: Apache-2.0
// What a program has allocated of a device's own memory through the layer, by VkDeviceMemory.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace weir::shim {

class DeviceMemory {
 public:
  /// Notes which types of memory are the device's own. Before any other call.
  void Describe(const VkPhysicalDeviceMemoryProperties& properties) noexcept;
  /// Whether the allocation takes memory of the device. Imported memory does not: another call has allocated it.
  [[nodiscard]] bool Counts(const VkMemoryAllocateInfo& info) const noexcept;
  /// False: out of memory.
  bool Add(std::uint64_t memory, std::uint64_t bytes) noexcept;
  /// Forgets the memory and returns its size; 0: it was not added.
  std::uint64_t Take(std::uint64_t memory) noexcept;
  /// Forgets all memory and returns the sum of the sizes.
  std::uint64_t TakeAll() noexcept;

 private:
  std::uint32_t counted_types_ = 0;  // a bit for each type of memory
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> bytes_;
};

}  // namespace weir::shim
