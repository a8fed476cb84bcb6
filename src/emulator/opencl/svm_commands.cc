// SPDX-License-Identifier: Apache-2.0
// Coarse-grained shared virtual memory. Its memory is allocated on the device, and its maps are copies.
#include <map>
#include <mutex>
#include <vector>

#include "emulator/opencl/driver.h"
#include "emulator/opencl/maps.h"
#include "emulator/opencl/memory.h"

namespace weir::emulator::cl {
namespace {

struct Allocation {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
};

/// The allocations of clSVMAlloc.
class Allocations {
 public:
  void Add(void* at, const Allocation& allocation) {
    const std::lock_guard lock(mutex_);
    held_[at] = allocation;
  }
  void Free(void* at) {
    Allocation found;
    {
      const std::lock_guard lock(mutex_);
      const auto entry = held_.find(at);
      if (entry == held_.end()) return;
      found = entry->second;
      held_.erase(entry);
    }
    Driver::The().GiveMemory(found.device, found.bytes);
  }

 private:
  std::mutex mutex_;
  std::map<void*, Allocation> held_;
};

Allocations& AllAllocations() {
  static Allocations& all = *new Allocations;
  return all;
}

void* CL_API_CALL Allocate(cl_context context, cl_svm_mem_flags flags, std::size_t size, cl_uint alignment) {
  void* memory = nullptr;
  Guarded([&] {
    const Driver::Device* device = DeviceOf(context);
    if (device == nullptr || Driver::The().TakeMemory(*device, size) != CL_SUCCESS)
      return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    memory = Pocl().clSVMAlloc(context, flags, size, alignment);
    if (memory == nullptr)
      Driver::The().GiveMemory(device->number, size);
    else
      AllAllocations().Add(memory, {.device = device->number, .bytes = size});
    return CL_SUCCESS;
  });
  return memory;
}

void CL_API_CALL Free(cl_context context, void* memory) {
  Guarded([&] {
    AllAllocations().Free(memory);
    Pocl().clSVMFree(context, memory);
    return CL_SUCCESS;
  });
}

cl_int CL_API_CALL EnqueueFree(cl_command_queue queue, cl_uint pointers, void* list[],
                               void(CL_CALLBACK* free)(cl_command_queue, cl_uint, void*[], void*), void* data,
                               cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    CommandKind kind{.type = CL_COMMAND_SVM_FREE};
    // If the program passes a function of its own, that function calls clSVMFree.
    if (free == nullptr && list != nullptr)
      kind.when_complete = [freed = std::vector<void*>(list, list + pointers)] {
        for (void* one : freed) AllAllocations().Free(one);
      };
    return Driver::The().Enqueue(queue, std::move(kind), count, events, out,
                                 [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueSVMFree(queue, pointers, list, free, data, n, waits, event);
                                 });
  });
}

cl_int CL_API_CALL Copy(cl_command_queue queue, cl_bool blocking, void* to, const void* from, std::size_t size,
                        cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_SVM_MEMCPY, .work = Driver::The().CostOf("clEnqueueSVMMemcpy", size).work}, count,
        events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueSVMMemcpy(queue, CL_FALSE, to, from, size, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL Fill(cl_command_queue queue, void* memory, const void* pattern, std::size_t pattern_size,
                        std::size_t size, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_SVM_MEMFILL, .work = Driver::The().CostOf("clEnqueueSVMMemFill", size).work}, count,
        events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueSVMMemFill(queue, memory, pattern, pattern_size, size, n, waits, event);
        });
  });
}

cl_int CL_API_CALL Map(cl_command_queue queue, cl_bool blocking, cl_map_flags flags, void* memory, std::size_t size,
                       cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_SVM_MAP, .work = MapWork(flags, size)}, count, events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          const cl_int error = Pocl().clEnqueueSVMMap(queue, CL_FALSE, flags, memory, size, n, waits, event);
          if (error == CL_SUCCESS) TheMaps().Add(nullptr, memory, flags, size);
          return error;
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL Unmap(cl_command_queue queue, void* memory, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_SVM_UNMAP, .work = TheMaps().Remove(nullptr, memory)},
                                 count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueSVMUnmap(queue, memory, n, waits, event);
                                 });
  });
}

cl_int CL_API_CALL Migrate(cl_command_queue queue, cl_uint pointers, const void** list, const std::size_t* sizes,
                           cl_mem_migration_flags flags, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_SVM_MIGRATE_MEM}, count, events, out,
                                 [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueSVMMigrateMem(queue, pointers, list, sizes, flags, n, waits,
                                                                        event);
                                 });
  });
}

}  // namespace

void AddSvmCommands(cl_icd_dispatch& table) {
  table.clSVMAlloc = Allocate;
  table.clSVMFree = Free;
  table.clEnqueueSVMFree = EnqueueFree;
  table.clEnqueueSVMMemcpy = Copy;
  table.clEnqueueSVMMemFill = Fill;
  table.clEnqueueSVMMap = Map;
  table.clEnqueueSVMUnmap = Unmap;
  table.clEnqueueSVMMigrateMem = Migrate;
}

}  // namespace weir::emulator::cl
