// SPDX-License-Identifier: Apache-2.0
// Buffers and images, whose memory is allocated at the emulator.
#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/opencl/memory.h"

namespace weir::emulator::cl {
namespace {

using Callback = std::pair<void(CL_CALLBACK*)(cl_mem, void*), void*>;

struct Held {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  std::vector<Callback> callbacks{};  // the program's, for the object's end
};

/// The objects that hold memory of a device.
class Objects {
 public:
  void Add(cl_mem object, const Held& held) {
    const std::lock_guard lock(mutex_);
    held_[object] = held;
  }
  /// False: the object is not known.
  bool AddCallback(cl_mem object, const Callback& callback) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(object);
    if (found == held_.end()) return false;
    found->second.callbacks.push_back(callback);
    return true;
  }
  Held Take(cl_mem object) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.extract(object);
    return found ? std::move(found.mapped()) : Held{};
  }

 private:
  std::mutex mutex_;
  std::unordered_map<cl_mem, Held> held_;
};

Objects& AllObjects() {
  static Objects& all = *new Objects;
  return all;
}

/// Called at an object's end. The emulator releases the memory before the program's callbacks are called, so that a
/// program can rely on the memory being free.
void CL_CALLBACK GiveBack(cl_mem object, void*) {
  Guarded([&] {
    const Held held = AllObjects().Take(object);
    Driver::The().GiveMemory(held.device, held.bytes);
    for (auto callback = held.callbacks.rbegin(); callback != held.callbacks.rend(); ++callback)
      callback->first(object, callback->second);
    return CL_SUCCESS;
  });
}

cl_int CL_API_CALL SetDestructorCallback(cl_mem object, void(CL_CALLBACK* call)(cl_mem, void*), void* data) {
  return Guarded([&] {
    if (call != nullptr && AllObjects().AddCallback(object, {call, data})) return CL_SUCCESS;
    return Pocl().clSetMemObjectDestructorCallback(object, call, data);
  });
}

/// Records an object of PoCL. If PoCL has made no object, returns the memory to the emulator.
void Keep(cl_mem made, const Driver::Device& device, std::uint64_t bytes) {
  if (made != nullptr) {
    AllObjects().Add(made, {.device = device.number, .bytes = bytes});
    if (Pocl().clSetMemObjectDestructorCallback(made, GiveBack, nullptr) == CL_SUCCESS) return;
    AllObjects().Take(made);
  }
  Driver::The().GiveMemory(device.number, bytes);
}

cl_mem Answer(cl_mem made, cl_int status, cl_int* error) {
  if (error != nullptr) *error = status;
  return made;
}

/// `make` makes PoCL's buffer; its argument receives the error.
template <typename Make>
cl_mem MakeBuffer(cl_context context, std::size_t size, cl_int* error, Make make) {
  cl_mem made = nullptr;
  const cl_int status = Guarded([&]() -> cl_int {
    cl_int failed = CL_SUCCESS;
    const Driver::Device* device = DeviceOf(context);
    if (device == nullptr || size == 0) {
      made = make(&failed);
      return failed;
    }
    if (size > LargestBuffer(*device)) return CL_INVALID_BUFFER_SIZE;
    if (const cl_int none = Driver::The().TakeMemory(*device, size); none != CL_SUCCESS) return none;
    made = make(&failed);
    Keep(made, *device, size);
    return failed;
  });
  return Answer(made, status, error);
}

/// Allocates the memory of an image after PoCL has made the image, because only then its size is known.
cl_mem KeepImage(cl_context context, const cl_image_desc* description, cl_mem made, cl_int* error) {
  if (made == nullptr) return nullptr;
  const cl_int status = Guarded([&]() -> cl_int {
    std::size_t size = 0;
    const Driver::Device* device = DeviceOf(context);
    const bool in_another = description != nullptr && description->mem_object != nullptr;
    if (device == nullptr || in_another ||
        Pocl().clGetMemObjectInfo(made, CL_MEM_SIZE, sizeof size, &size, nullptr) != CL_SUCCESS)
      return CL_SUCCESS;
    if (const cl_int none = Driver::The().TakeMemory(*device, size); none != CL_SUCCESS) {
      Pocl().clReleaseMemObject(made);
      made = nullptr;
      return none;
    }
    Keep(made, *device, size);
    return CL_SUCCESS;
  });
  return Answer(made, status, error);
}

cl_mem CL_API_CALL CreateBuffer(cl_context context, cl_mem_flags flags, std::size_t size, void* host, cl_int* error) {
  return MakeBuffer(context, size, error,
                    [&](cl_int* failed) { return Pocl().clCreateBuffer(context, flags, size, host, failed); });
}

cl_mem CL_API_CALL CreateBufferWithProperties(cl_context context, const cl_mem_properties* properties,
                                              cl_mem_flags flags, std::size_t size, void* host, cl_int* error) {
  return MakeBuffer(context, size, error, [&](cl_int* failed) {
    return Pocl().clCreateBufferWithProperties(context, properties, flags, size, host, failed);
  });
}

cl_mem CL_API_CALL CreateImage(cl_context context, cl_mem_flags flags, const cl_image_format* format,
                               const cl_image_desc* description, void* host, cl_int* error) {
  return KeepImage(context, description, Pocl().clCreateImage(context, flags, format, description, host, error), error);
}

cl_mem CL_API_CALL CreateImageWithProperties(cl_context context, const cl_mem_properties* properties,
                                             cl_mem_flags flags, const cl_image_format* format,
                                             const cl_image_desc* description, void* host, cl_int* error) {
  return KeepImage(context, description,
                   Pocl().clCreateImageWithProperties(context, properties, flags, format, description, host, error),
                   error);
}

cl_mem CL_API_CALL CreateImage2D(cl_context context, cl_mem_flags flags, const cl_image_format* format,
                                 std::size_t width, std::size_t height, std::size_t row, void* host, cl_int* error) {
  return KeepImage(context, nullptr, Pocl().clCreateImage2D(context, flags, format, width, height, row, host, error),
                   error);
}

cl_mem CL_API_CALL CreateImage3D(cl_context context, cl_mem_flags flags, const cl_image_format* format,
                                 std::size_t width, std::size_t height, std::size_t depth, std::size_t row,
                                 std::size_t slice, void* host, cl_int* error) {
  return KeepImage(context, nullptr,
                   Pocl().clCreateImage3D(context, flags, format, width, height, depth, row, slice, host, error),
                   error);
}

}  // namespace

const Driver::Device* DeviceOf(cl_context context) {
  std::array<cl_device_id, 64> devices{};
  std::size_t bytes = 0;
  if (Pocl().clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof devices, devices.data(), &bytes) != CL_SUCCESS)
    return nullptr;
  for (std::size_t i = 0; i < bytes / sizeof(cl_device_id); ++i)
    if (const Driver::Device* found = Driver::The().Find(devices[i])) return found;
  return nullptr;
}

std::uint64_t LargestBuffer(const Driver::Device& device) {
  cl_ulong largest = 0;
  if (Pocl().clGetDeviceInfo(device.native, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, nullptr) !=
      CL_SUCCESS)
    return device.model.memory.count;
  return std::min<std::uint64_t>(largest, device.model.memory.count);
}

void AddMemoryCalls(cl_icd_dispatch& table) {
  table.clSetMemObjectDestructorCallback = SetDestructorCallback;
  table.clCreateBuffer = CreateBuffer;
  table.clCreateBufferWithProperties = CreateBufferWithProperties;
  table.clCreateImage = CreateImage;
  table.clCreateImageWithProperties = CreateImageWithProperties;
  table.clCreateImage2D = CreateImage2D;
  table.clCreateImage3D = CreateImage3D;
}

}  // namespace weir::emulator::cl
