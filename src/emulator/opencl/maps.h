// SPDX-License-Identifier: Apache-2.0
// The mapped regions and the costs of mapping. An unmap copies in a region that was mapped for writing.
#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "emulator/opencl/cl.h"
#include "emulator/opencl/costs.h"

namespace weir::emulator::cl {

/// The cost of a map: it copies out, unless the program overwrites the whole region.
inline Work MapWork(cl_map_flags flags, std::uint64_t bytes) {
  return (flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0 ? Work{} : CopyWork(core::EngineKind::kCopyOut, bytes);
}

class Maps {
 public:
  /// `object`: a memory object; null: shared virtual memory.
  void Add(cl_mem object, const void* mapped, cl_map_flags flags, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    mapped_[{object, mapped}].push_back({(flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0, bytes});
  }
  /// Removes a region and returns the cost of the unmap.
  Work Remove(cl_mem object, const void* mapped) {
    const std::lock_guard lock(mutex_);
    const auto found = mapped_.find({object, mapped});
    if (found == mapped_.end()) return {};
    const auto [written, bytes] = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) mapped_.erase(found);
    return written ? CopyWork(core::EngineKind::kCopyIn, bytes) : Work{};
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<cl_mem, const void*>, std::vector<std::pair<bool, std::uint64_t>>> mapped_;
};

/// The mapped regions of the process. Never destroyed, like the driver.
inline Maps& TheMaps() {
  static Maps& maps = *new Maps;
  return maps;
}

}  // namespace weir::emulator::cl
