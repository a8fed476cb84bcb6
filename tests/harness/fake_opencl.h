// SPDX-License-Identifier: Apache-2.0
// A driver with buffers in plain memory, for tests and benchmarks of its callers. The test decides when objects are
// released and which calls fail.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "opencl/executor/objects.h"

namespace weir::testing {

class FakeOpenCl {
 public:
  FakeOpenCl() {
    Current() = this;
    table_.clReleaseContext = [](cl_context) { return CL_SUCCESS; };
    table_.clCreateCommandQueue = [](cl_context, cl_device_id, cl_command_queue_properties, cl_int* error) {
      *error = CL_SUCCESS;
      return reinterpret_cast<cl_command_queue>(Current());
    };
    table_.clReleaseCommandQueue = [](cl_command_queue) { return CL_SUCCESS; };
    table_.clCreateBuffer = [](cl_context, cl_mem_flags, std::size_t size, void* from, cl_int* error) {
      return Current()->Make(size, from, error);
    };
    table_.clSetMemObjectDestructorCallback = [](cl_mem mem, void(CL_CALLBACK * done)(cl_mem, void*), void* data) {
      reinterpret_cast<Buffer*>(mem)->callbacks.emplace_back(done, data);
      return CL_SUCCESS;
    };
    table_.clReleaseMemObject = [](cl_mem mem) { return Current()->Release(mem); };
    table_.clEnqueueReadBuffer = [](cl_command_queue, cl_mem mem, cl_bool, std::size_t at, std::size_t size, void* to,
                                    cl_uint, const cl_event*, cl_event*) {
      if (Current()->refuse_reads) return cl_int{CL_OUT_OF_RESOURCES};
      std::memcpy(to, reinterpret_cast<Buffer*>(mem)->bytes + at, size);
      return CL_SUCCESS;
    };
    table_.clEnqueueWriteBuffer = [](cl_command_queue, cl_mem mem, cl_bool, std::size_t at, std::size_t size,
                                     const void* from, cl_uint, const cl_event*, cl_event*) {
      if (Current()->on_write) Current()->on_write();
      std::memcpy(reinterpret_cast<Buffer*>(mem)->bytes + at, from, size);
      return CL_SUCCESS;
    };
  }
  ~FakeOpenCl() {
    release_late = false;
    LetGo();
  }
  FakeOpenCl(const FakeOpenCl&) = delete;
  FakeOpenCl& operator=(const FakeOpenCl&) = delete;

  std::shared_ptr<opencl::Context> MakeContext() {
    auto device = std::make_shared<opencl::Device>(table_);
    auto context = std::make_shared<opencl::Context>(table_);
    context->devices.emplace_back(1, std::move(device));
    return context;
  }
  static std::byte& FirstByteOf(cl_mem mem) { return reinterpret_cast<Buffer*>(mem)->bytes[0]; }
  /// Releases the objects whose release was delayed.
  void LetGo() {
    std::vector<cl_mem> late;
    {
      const std::lock_guard lock(mutex_);
      late.swap(late_);
    }
    for (const cl_mem mem : late) End(mem);
  }

  std::atomic<bool> refuse_reads{false}, refuse_buffers{false}, release_late{false};
  std::atomic<int> alive{0};
  std::function<void()> on_write{};  // called while data is copied to a buffer

 private:
  struct Buffer {
    std::byte* bytes = nullptr;  // untouched pages take no memory
    std::vector<std::pair<void(CL_CALLBACK*)(cl_mem, void*), void*>> callbacks;
  };

  /// The only instance: OpenCL's functions have no argument for a driver.
  static FakeOpenCl*& Current() {
    static FakeOpenCl* current = nullptr;
    return current;
  }
  cl_mem Make(std::size_t size, const void* from, cl_int* error) {
    *error = refuse_buffers ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_SUCCESS;
    if (refuse_buffers) return nullptr;
    auto made = std::make_unique<Buffer>();
    made->bytes = static_cast<std::byte*>(std::calloc(size, 1));
    if (from != nullptr) std::memcpy(made->bytes, from, size);
    ++alive;
    return reinterpret_cast<cl_mem>(made.release());
  }
  cl_int Release(cl_mem mem) {
    if (release_late) {
      const std::lock_guard lock(mutex_);
      late_.push_back(mem);
    } else {
      End(mem);
    }
    return CL_SUCCESS;
  }
  void End(cl_mem mem) {
    const std::unique_ptr<Buffer> buffer(reinterpret_cast<Buffer*>(mem));
    --alive;
    std::free(buffer->bytes);
    for (const auto& [done, data] : buffer->callbacks) done(mem, data);
  }

  cl_icd_dispatch table_{};
  std::mutex mutex_;
  std::vector<cl_mem> late_;
};

}  // namespace weir::testing
