// SPDX-License-Identifier: Apache-2.0
// A driver that checks its caller, which must use it correctly whatever input it gets itself. The process ends if a
// handle was released or is of another kind, on a wait that nothing can end, and if objects remain at the end. Calls
// that the specification lets a driver refuse fail with the specified error. The driver touches each byte of the ranges
// that it gets, so that a sanitizer notices a range that is too long. Commands run when they are enqueued, except those
// that wait for a user event. Single-threaded.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/channel/cl.h"
#include "tests/harness/strict_opencl_objects.h"

namespace weir::testing {

class StrictOpenCl {
 public:
  static constexpr std::size_t kObjectBytesMax = 1 << 20;

  StrictOpenCl() {
    Current() = this;
    Objects();
    Programs();
    Infos();
    Buffers();
    Images();
    Commands();
  }
  StrictOpenCl(const StrictOpenCl&) = delete;
  StrictOpenCl& operator=(const StrictOpenCl&) = delete;

  [[nodiscard]] const cl_icd_dispatch& table() const { return table_; }
  [[nodiscard]] cl_device_id device() { return reinterpret_cast<cl_device_id>(&device_); }
  /// Makes the `nth` call that can fail from now on fail; 0: none.
  void RefuseAt(unsigned nth) { refuse_in_ = nth; }
  /// Ends the process if an object remains.
  static void ExpectNothingLeft() {
    if (strict_cl::Thing::alive != 0) strict_cl::Die("objects were left behind");
  }

 private:
  static StrictOpenCl*& Current() {
    static StrictOpenCl* current = nullptr;
    return current;
  }
  static bool Refuses() { return Current()->refuse_in_ > 0 && --Current()->refuse_in_ == 0; }
  template <typename Handle>
  static Handle No(cl_int* error, cl_int why) {
    *error = why;
    return nullptr;
  }
  template <typename Handle, typename T>
  static Handle Yes(cl_int* error, std::shared_ptr<T> made) {
    *error = CL_SUCCESS;
    return strict_cl::Give<Handle>(std::move(made));
  }

  static void RunIfReady(const std::shared_ptr<strict_cl::Event>& event) {
    if (event->ended() || event->waits > 0) return;
    if (event->failed == CL_SUCCESS && event->run) event->run();
    End(event, event->failed == CL_SUCCESS ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  }
  static void End(const std::shared_ptr<strict_cl::Event>& event, cl_int status) {
    event->run = nullptr;
    event->status = status;
    ++event->refs;  // a callback may query the event after its release
    for (const auto& [call, data] : std::exchange(event->callbacks, {}))
      call(reinterpret_cast<cl_event>(event.get()), status, data);
    --event->refs;
    for (const auto& next : std::exchange(event->next, {})) {
      if (status < 0) next->failed = status;
      --next->waits;
      RunIfReady(next);
    }
  }
  static void Await(const std::shared_ptr<strict_cl::Event>& event, const std::shared_ptr<strict_cl::Event>& first) {
    if (!first->ended()) {
      first->next.push_back(event);
      ++event->waits;
    } else if (first->status < 0) {
      event->failed = first->status;
    }
  }
  static cl_int Enqueue(cl_command_queue handle, cl_uint count, const cl_event* waits, cl_event* made,
                        std::function<void()> run, bool barrier = false) {
    using strict_cl::Event;
    auto& queue = strict_cl::Of<strict_cl::Queue>(handle);
    if ((count == 0) != (waits == nullptr)) strict_cl::Die("a wait list and its length contradict each other");
    auto event = std::make_shared<Event>();
    for (cl_uint i = 0; i < count; ++i) Await(event, strict_cl::Share<Event>(waits[i]));
    if (Refuses()) {
      for (cl_uint i = 0; i < count; ++i) std::erase(strict_cl::Of<Event>(waits[i]).next, event);
      return CL_OUT_OF_RESOURCES;
    }
    std::erase_if(queue.pending, [](const auto& earlier) { return earlier->ended(); });
    if (queue.in_order ? !queue.pending.empty() : barrier && count == 0)
      for (const auto& earlier : queue.pending) Await(event, earlier);
    if (!queue.in_order && queue.barrier != nullptr) Await(event, queue.barrier);
    if (barrier) queue.barrier = event;
    event->run = std::move(run);
    event->timed = queue.timed;
    queue.pending.push_back(event);
    if (made != nullptr)
      *made = strict_cl::Give<cl_event>(event);
    else
      event->refs = 0;
    RunIfReady(event);
    return CL_SUCCESS;
  }

  void Objects() {
    using namespace strict_cl;
    table_.clCreateContext = [](const cl_context_properties*, cl_uint count, const cl_device_id* devices,
                                void(CL_CALLBACK*)(const char*, const void*, std::size_t, void*), void*,
                                cl_int* error) -> cl_context {
      for (cl_uint i = 0; i < count; ++i) Of<Device>(devices[i]);
      if (count == 0) return No<cl_context>(error, CL_INVALID_VALUE);
      if (Refuses()) return No<cl_context>(error, CL_OUT_OF_HOST_MEMORY);
      return Yes<cl_context>(error, std::make_shared<Context>());
    };
    table_.clReleaseContext = Release<Context, cl_context>;
    table_.clCreateCommandQueue = [](cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                     cl_int* error) -> cl_command_queue {
      Of<Device>(device);
      auto queue = std::make_shared<Queue>();
      queue->context = Share<Context>(context);
      queue->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
      queue->timed = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
      if (Refuses()) return No<cl_command_queue>(error, CL_OUT_OF_HOST_MEMORY);
      return Yes<cl_command_queue>(error, std::move(queue));
    };
    table_.clReleaseCommandQueue = Release<Queue, cl_command_queue>;
    table_.clCreateSampler = [](cl_context context, cl_bool, cl_addressing_mode, cl_filter_mode filter,
                                cl_int* error) -> cl_sampler {
      Of<Context>(context);
      if (filter > 1 || Refuses()) return No<cl_sampler>(error, CL_INVALID_VALUE);
      return Yes<cl_sampler>(error, std::make_shared<Sampler>());
    };
    table_.clReleaseSampler = Release<Sampler, cl_sampler>;
    table_.clCreateSubDevices = [](cl_device_id device, const cl_device_partition_property* properties, cl_uint room,
                                   cl_device_id* devices, cl_uint* count) -> cl_int {
      Of<Device>(device);
      while (*properties != 0) ++properties;
      if (room < 1) return CL_INVALID_VALUE;
      devices[0] = reinterpret_cast<cl_device_id>(&Current()->part_);
      *count = 1;
      return CL_SUCCESS;
    };
    table_.clCreateUserEvent = [](cl_context context, cl_int* error) -> cl_event {
      Of<Context>(context);
      if (Refuses()) return No<cl_event>(error, CL_OUT_OF_HOST_MEMORY);
      auto event = std::make_shared<Event>();
      event->user = true;
      event->status = CL_SUBMITTED;
      return Yes<cl_event>(error, std::move(event));
    };
    table_.clSetUserEventStatus = [](cl_event handle, cl_int status) -> cl_int {
      const auto event = Share<Event>(handle);
      if (!event->user) return CL_INVALID_EVENT;
      if (event->ended()) return CL_INVALID_OPERATION;
      End(event, status);
      return CL_SUCCESS;
    };
    table_.clRetainEvent = Retain<Event, cl_event>;
    table_.clReleaseEvent = Release<Event, cl_event>;
    table_.clSetEventCallback = [](cl_event handle, cl_int, Event::Callback call, void* data) -> cl_int {
      const auto event = Share<Event>(handle);
      if (event->ended())
        call(handle, event->status, data);
      else
        event->callbacks.emplace_back(call, data);
      return CL_SUCCESS;
    };
    table_.clWaitForEvents = [](cl_uint count, const cl_event* events) -> cl_int {
      cl_int status = CL_SUCCESS;
      for (cl_uint i = 0; i < count; ++i) {
        const Event& event = Of<Event>(events[i]);
        if (!event.ended()) Die("a wait for an event that cannot be set any more");
        if (event.status < 0) status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
      }
      return status;
    };
  }

  void Programs() {
    using namespace strict_cl;
    table_.clCreateProgramWithSource = [](cl_context context, cl_uint count, const char** texts,
                                          const std::size_t* lengths, cl_int* error) -> cl_program {
      for (cl_uint i = 0; i < count; ++i) Touch(texts[i], lengths[i]);
      return MakeProgram(context, error);
    };
    table_.clCreateProgramWithBinary = [](cl_context context, cl_uint count, const cl_device_id* devices,
                                          const std::size_t* sizes, const unsigned char** binaries, cl_int*,
                                          cl_int* error) -> cl_program {
      for (cl_uint i = 0; i < count; ++i) {
        Of<Device>(devices[i]);
        if (sizes[i] == 0 || binaries[i] == nullptr) return No<cl_program>(error, CL_INVALID_VALUE);
        Touch(binaries[i], sizes[i]);
      }
      if (count == 0) return No<cl_program>(error, CL_INVALID_VALUE);
      return MakeProgram(context, error);
    };
    table_.clReleaseProgram = Release<Program, cl_program>;
    table_.clBuildProgram = [](cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                               void(CL_CALLBACK*)(cl_program, void*),
                               void*) -> cl_int { return Compile(program, count, devices, options); };
    table_.clCompileProgram = [](cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                                 cl_uint headers, const cl_program* header_programs, const char** names,
                                 void(CL_CALLBACK*)(cl_program, void*), void*) -> cl_int {
      for (cl_uint i = 0; i < headers; ++i) {
        Of<Program>(header_programs[i]);
        Touch(names[i], std::strlen(names[i]));
      }
      return Compile(program, count, devices, options);
    };
    table_.clLinkProgram = [](cl_context context, cl_uint count, const cl_device_id* devices, const char* options,
                              cl_uint inputs, const cl_program* programs, void(CL_CALLBACK*)(cl_program, void*), void*,
                              cl_int* error) -> cl_program {
      for (cl_uint i = 0; i < count; ++i) Of<Device>(devices[i]);
      bool built = inputs > 0;
      for (cl_uint i = 0; i < inputs; ++i) built = Of<Program>(programs[i]).built && built;
      const cl_program made = MakeProgram(context, error);
      if (made == nullptr) return nullptr;
      Of<Program>(made).built = built;
      // A failed call returns either a program with its log or none.
      if (!built) *error = CL_LINK_PROGRAM_FAILURE;
      if (built || options[0] != 'n') return made;
      Release<Program>(made);
      return nullptr;
    };
    table_.clCreateKernel = [](cl_program program, const char* name, cl_int* error) -> cl_kernel {
      if (!Of<Program>(program).built) return No<cl_kernel>(error, CL_INVALID_PROGRAM_EXECUTABLE);
      if (std::strcmp(name, "a") != 0 || Refuses()) return No<cl_kernel>(error, CL_INVALID_KERNEL_NAME);
      return Yes<cl_kernel>(error, MakeKernel(program));
    };
    table_.clCreateKernelsInProgram = [](cl_program program, cl_uint room, cl_kernel* kernels,
                                         cl_uint* count) -> cl_int {
      if (!Of<Program>(program).built) return CL_INVALID_PROGRAM_EXECUTABLE;
      if (count != nullptr) *count = 1;
      if (kernels == nullptr) return CL_SUCCESS;
      if (room < 1 || Refuses()) return CL_INVALID_VALUE;
      kernels[0] = Give<cl_kernel>(MakeKernel(program));
      return CL_SUCCESS;
    };
    table_.clReleaseKernel = Release<Kernel, cl_kernel>;
    table_.clSetKernelArg = [](cl_kernel handle, cl_uint index, std::size_t size, const void* value) -> cl_int {
      auto& kernel = Of<Kernel>(handle);
      if (index >= Kernel::kArgs) return CL_INVALID_ARG_INDEX;
      constexpr std::array<std::size_t, Kernel::kArgs> kSizes{sizeof(cl_mem), 4, 0, sizeof(cl_mem), sizeof(cl_sampler)};
      if (index == 2) {
        if (value != nullptr) return CL_INVALID_ARG_VALUE;
        if (size == 0) return CL_INVALID_ARG_SIZE;
      } else {
        if (size != kSizes[index]) return CL_INVALID_ARG_SIZE;
        if (value == nullptr && index != 0) return CL_INVALID_ARG_VALUE;
      }
      // Like real drivers, treats the value of an object argument as a handle.
      if (index == 0) kernel.buffer = value == nullptr ? nullptr : ReadAs<cl_mem, Memory>(value);
      if (index == 3) kernel.image = ReadAs<cl_mem, Memory>(value);
      if (index == 4) kernel.sampler = ReadAs<cl_sampler, Sampler>(value);
      if (index == 1) Touch(value, size);
      kernel.set[index] = true;
      return CL_SUCCESS;
    };
  }

  void Infos() {
    using namespace strict_cl;
    table_.clGetPlatformInfo = [](cl_platform_id, cl_platform_info, std::size_t, void*, std::size_t*) -> cl_int {
      return CL_INVALID_VALUE;
    };
    table_.clGetDeviceInfo = [](cl_device_id device, cl_device_info name, std::size_t room, void* value,
                                std::size_t* size) -> cl_int {
      Of<Device>(device);
      if (name == CL_DEVICE_NAME) return Tell("strict", room, value, size);
      if (name == CL_DEVICE_GLOBAL_MEM_SIZE) return Tell(cl_ulong{1} << 30, room, value, size);
      return CL_INVALID_VALUE;
    };
    table_.clGetProgramInfo = [](cl_program handle, cl_program_info name, std::size_t room, void* value,
                                 std::size_t* size) -> cl_int {
      Of<Program>(handle);
      constexpr std::size_t kBinaryBytes = 16;
      if (name == CL_PROGRAM_NUM_DEVICES) return Tell(cl_uint{1}, room, value, size);
      if (name == CL_PROGRAM_DEVICES) return Tell(Current()->device(), room, value, size);
      if (name == CL_PROGRAM_BINARY_SIZES) return Tell(kBinaryBytes, room, value, size);
      if (name != CL_PROGRAM_BINARIES || room < sizeof(char*)) return CL_INVALID_VALUE;
      if (auto* const to = static_cast<unsigned char**>(value)[0]) std::memset(to, 7, kBinaryBytes);
      return CL_SUCCESS;
    };
    table_.clGetProgramBuildInfo = [](cl_program handle, cl_device_id device, cl_program_build_info name,
                                      std::size_t room, void* value, std::size_t* size) -> cl_int {
      const auto& program = Of<Program>(handle);
      Of<Device>(device);
      if (name == CL_PROGRAM_BUILD_STATUS)
        return Tell(cl_build_status{program.built ? CL_BUILD_SUCCESS : CL_BUILD_NONE}, room, value, size);
      if (name == CL_PROGRAM_BINARY_TYPE)
        return Tell(cl_program_binary_type{CL_PROGRAM_BINARY_TYPE_EXECUTABLE}, room, value, size);
      if (name == CL_PROGRAM_BUILD_LOG) return Tell("said", room, value, size);
      return CL_INVALID_VALUE;
    };
    table_.clGetKernelInfo = [](cl_kernel kernel, cl_kernel_info name, std::size_t room, void* value,
                                std::size_t* size) -> cl_int {
      Of<Kernel>(kernel);
      if (name == CL_KERNEL_NUM_ARGS) return Tell(Kernel::kArgs, room, value, size);
      if (name == CL_KERNEL_FUNCTION_NAME) return Tell("a", room, value, size);
      return CL_INVALID_VALUE;
    };
    table_.clGetKernelArgInfo = [](cl_kernel kernel, cl_uint index, cl_kernel_arg_info name, std::size_t room,
                                   void* value, std::size_t* size) -> cl_int {
      Of<Kernel>(kernel);
      if (index >= Kernel::kArgs) return CL_INVALID_ARG_INDEX;
      constexpr std::array<cl_kernel_arg_address_qualifier, Kernel::kArgs> kAddresses{
          CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_ADDRESS_LOCAL,
          CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_ADDRESS_PRIVATE};
      constexpr std::array kTypes{"int*", "int", "int*", "image2d_t", "sampler_t"};
      if (name == CL_KERNEL_ARG_ADDRESS_QUALIFIER) return Tell(kAddresses[index], room, value, size);
      if (name == CL_KERNEL_ARG_ACCESS_QUALIFIER)
        return Tell(cl_kernel_arg_access_qualifier{CL_KERNEL_ARG_ACCESS_NONE}, room, value, size);
      if (name == CL_KERNEL_ARG_TYPE_QUALIFIER) return Tell(cl_kernel_arg_type_qualifier{0}, room, value, size);
      return Tell(name == CL_KERNEL_ARG_TYPE_NAME ? kTypes[index] : "x", room, value, size);
    };
    table_.clGetKernelWorkGroupInfo = [](cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name,
                                         std::size_t room, void* value, std::size_t* size) -> cl_int {
      Of<Kernel>(kernel);
      Of<Device>(device);
      if (name == CL_KERNEL_WORK_GROUP_SIZE) return Tell(std::size_t{256}, room, value, size);
      if (name == CL_KERNEL_COMPILE_WORK_GROUP_SIZE) return Tell(std::array<std::size_t, 3>{}, room, value, size);
      return CL_INVALID_VALUE;
    };
    table_.clGetMemObjectInfo = [](cl_mem memory, cl_mem_info name, std::size_t room, void* value,
                                   std::size_t* size) -> cl_int {
      return name == CL_MEM_SIZE ? Tell(Of<Memory>(memory).size, room, value, size) : CL_INVALID_VALUE;
    };
    table_.clGetImageInfo = [](cl_mem memory, cl_image_info name, std::size_t room, void* value,
                               std::size_t* size) -> cl_int {
      const auto& image = Of<Memory>(memory);
      if (!image.image) return CL_INVALID_MEM_OBJECT;
      return name == CL_IMAGE_ELEMENT_SIZE ? Tell(image.pixel, room, value, size) : CL_INVALID_VALUE;
    };
    table_.clGetSupportedImageFormats = [](cl_context context, cl_mem_flags, cl_mem_object_type, cl_uint room,
                                           cl_image_format* formats, cl_uint* count) -> cl_int {
      Of<Context>(context);
      if (count != nullptr) *count = 2;
      for (cl_uint i = 0; formats != nullptr && i < std::min<cl_uint>(room, 2); ++i) formats[i] = {i, i};
      return CL_SUCCESS;
    };
    table_.clGetEventInfo = [](cl_event handle, cl_event_info name, std::size_t room, void* value,
                               std::size_t* size) -> cl_int {
      const auto& event = Of<Event>(handle);
      return name == CL_EVENT_COMMAND_EXECUTION_STATUS ? Tell(event.status, room, value, size) : CL_INVALID_VALUE;
    };
    table_.clGetEventProfilingInfo = [](cl_event handle, cl_profiling_info name, std::size_t room, void* value,
                                        std::size_t* size) -> cl_int {
      const auto& event = Of<Event>(handle);
      if (event.user || !event.timed || event.status != CL_COMPLETE) return CL_PROFILING_INFO_NOT_AVAILABLE;
      return Tell(cl_ulong{1000} + name, room, value, size);
    };
  }

  void Buffers() {
    using namespace strict_cl;
    table_.clCreateBuffer = [](cl_context context, cl_mem_flags flags, std::size_t size, void* host,
                               cl_int* error) -> cl_mem {
      auto made = std::make_shared<Memory>();
      made->context = Share<Context>(context);
      const bool shows = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
      if (size == 0 || size > kObjectBytesMax) return No<cl_mem>(error, CL_INVALID_BUFFER_SIZE);
      if (shows != (host != nullptr)) return No<cl_mem>(error, CL_INVALID_HOST_PTR);
      if (Refuses()) return No<cl_mem>(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
      made->size = size;
      if (host != nullptr) Touch(host, size);
      if ((flags & CL_MEM_USE_HOST_PTR) != 0) {
        made->bytes = static_cast<std::byte*>(host);
      } else {
        made->own.resize(size);
        made->bytes = made->own.data();
        if (host != nullptr) std::memcpy(made->bytes, host, size);
      }
      return Yes<cl_mem>(error, std::move(made));
    };
    table_.clCreateSubBuffer = [](cl_mem parent, cl_mem_flags, cl_buffer_create_type, const void* info,
                                  cl_int* error) -> cl_mem {
      auto made = std::make_shared<Memory>();
      made->parent = Share<Memory>(parent);
      const auto& region = *static_cast<const cl_buffer_region*>(info);
      const Memory& whole = *made->parent;
      if (whole.parent || whole.image) return No<cl_mem>(error, CL_INVALID_MEM_OBJECT);
      if (region.size == 0 || region.origin > whole.size || region.size > whole.size - region.origin || Refuses())
        return No<cl_mem>(error, CL_INVALID_VALUE);
      made->context = whole.context;
      made->size = region.size;
      made->bytes = whole.bytes + region.origin;
      return Yes<cl_mem>(error, std::move(made));
    };
    table_.clReleaseMemObject = Release<Memory, cl_mem>;
    table_.clSetMemObjectDestructorCallback = [](cl_mem memory, Memory::Callback call, void* data) -> cl_int {
      Of<Memory>(memory).callbacks.emplace_back(call, data);
      return CL_SUCCESS;
    };
    table_.clEnqueueWriteBuffer = [](cl_command_queue queue, cl_mem to, cl_bool, std::size_t at, std::size_t size,
                                     const void* from, cl_uint count, const cl_event* waits, cl_event* event) {
      auto memory = Share<Memory>(to);
      if (!Holds(*memory, at, size) || from == nullptr) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [memory, at, size, from] { std::memmove(memory->bytes + at, from, size); });
    };
    table_.clEnqueueReadBuffer = [](cl_command_queue queue, cl_mem from, cl_bool, std::size_t at, std::size_t size,
                                    void* to, cl_uint count, const cl_event* waits, cl_event* event) {
      auto memory = Share<Memory>(from);
      if (!Holds(*memory, at, size) || to == nullptr) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [memory, at, size, to] { std::memmove(to, memory->bytes + at, size); });
    };
    table_.clEnqueueCopyBuffer = [](cl_command_queue queue, cl_mem from, cl_mem to, std::size_t from_at,
                                    std::size_t to_at, std::size_t size, cl_uint count, const cl_event* waits,
                                    cl_event* event) {
      auto source = Share<Memory>(from), target = Share<Memory>(to);
      if (!Holds(*source, from_at, size) || !Holds(*target, to_at, size)) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event, [source, target, from_at, to_at, size] {
        std::memmove(target->bytes + to_at, source->bytes + from_at, size);
      });
    };
    table_.clEnqueueFillBuffer = [](cl_command_queue queue, cl_mem to, const void* pattern, std::size_t bytes,
                                    std::size_t at, std::size_t size, cl_uint count, const cl_event* waits,
                                    cl_event* event) {
      auto memory = Share<Memory>(to);
      if (bytes == 0 || bytes > 128 || (bytes & (bytes - 1)) != 0 || pattern == nullptr) return CL_INVALID_VALUE;
      if (!Holds(*memory, at, size) || at % bytes != 0 || size % bytes != 0) return CL_INVALID_VALUE;
      const auto* const first = static_cast<const std::byte*>(pattern);
      return Enqueue(queue, count, waits, event, [memory, at, size, copy = std::vector(first, first + bytes)] {
        for (std::size_t i = 0; i < size; ++i) memory->bytes[at + i] = copy[i % copy.size()];
      });
    };
    table_.clEnqueueWriteBufferRect = [](cl_command_queue queue, cl_mem to, cl_bool, const std::size_t* origin,
                                         const std::size_t* host_origin, const std::size_t* region, std::size_t row,
                                         std::size_t slice, std::size_t host_row, std::size_t host_slice,
                                         const void* from, cl_uint count, const cl_event* waits, cl_event* event) {
      auto memory = Share<Memory>(to);
      const Box there = Box::Of(origin, region, row, slice), here = Box::Of(host_origin, region, host_row, host_slice);
      if (!there.sound() || !here.sound() || !there.within(memory->size)) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event, [memory, there, here, from] {
        CopyBox(memory->bytes, there, static_cast<const std::byte*>(from), here);
      });
    };
    table_.clEnqueueReadBufferRect = [](cl_command_queue queue, cl_mem from, cl_bool, const std::size_t* origin,
                                        const std::size_t* host_origin, const std::size_t* region, std::size_t row,
                                        std::size_t slice, std::size_t host_row, std::size_t host_slice, void* to,
                                        cl_uint count, const cl_event* waits, cl_event* event) {
      auto memory = Share<Memory>(from);
      const Box here = Box::Of(origin, region, row, slice), there = Box::Of(host_origin, region, host_row, host_slice);
      if (!there.sound() || !here.sound() || !here.within(memory->size)) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [memory, there, here, to] { CopyBox(static_cast<std::byte*>(to), there, memory->bytes, here); });
    };
    table_.clEnqueueCopyBufferRect = [](cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_origin,
                                        const std::size_t* to_origin, const std::size_t* region, std::size_t from_row,
                                        std::size_t from_slice, std::size_t to_row, std::size_t to_slice, cl_uint count,
                                        const cl_event* waits, cl_event* event) {
      auto source = Share<Memory>(from), target = Share<Memory>(to);
      const Box here = Box::Of(from_origin, region, from_row, from_slice);
      const Box there = Box::Of(to_origin, region, to_row, to_slice);
      if (!here.sound() || !there.sound() || !here.within(source->size) || !there.within(target->size))
        return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [source, target, here, there] { CopyBox(target->bytes, there, source->bytes, here); });
    };
  }

  void Images() {
    using namespace strict_cl;
    // A pixel has 1 to 16 bytes, as the format's numbers have it.
    table_.clCreateImage = [](cl_context context, cl_mem_flags flags, const cl_image_format* format,
                              const cl_image_desc* desc, void* host, cl_int* error) -> cl_mem {
      auto made = std::make_shared<Memory>();
      made->context = Share<Context>(context);
      made->image = true;
      made->pixel = 1 + ((format->image_channel_order ^ format->image_channel_data_type) & 15);
      const cl_mem_object_type type = desc->image_type;
      const bool array = type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
      const bool plane = type == CL_MEM_OBJECT_IMAGE2D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
      if (type <= CL_MEM_OBJECT_BUFFER || type > CL_MEM_OBJECT_IMAGE1D_BUFFER)
        return No<cl_mem>(error, CL_INVALID_IMAGE_DESCRIPTOR);
      std::size_t(&extent)[3] = made->extent;
      extent[0] = desc->image_width;
      extent[1] = plane || type == CL_MEM_OBJECT_IMAGE3D ? desc->image_height : 1;
      extent[2] = type == CL_MEM_OBJECT_IMAGE3D ? desc->image_depth : 1;
      if (array) extent[plane ? 2 : 1] = desc->image_array_size;
      for (const std::size_t n : extent)
        if (n == 0 || n > 64) return No<cl_mem>(error, CL_INVALID_IMAGE_SIZE);
      made->size = extent[0] * extent[1] * extent[2] * made->pixel;
      if (desc->mem_object != nullptr) {
        made->parent = Share<Memory>(desc->mem_object);
        if (made->parent->image || made->parent->size < made->size)
          return No<cl_mem>(error, CL_INVALID_IMAGE_DESCRIPTOR);
      } else if (type == CL_MEM_OBJECT_IMAGE1D_BUFFER) {
        return No<cl_mem>(error, CL_INVALID_IMAGE_DESCRIPTOR);
      }
      const bool shows = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
      if (shows != (host != nullptr)) return No<cl_mem>(error, CL_INVALID_HOST_PTR);
      if (Refuses()) return No<cl_mem>(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
      if (made->parent) {
        made->bytes = made->parent->bytes;
      } else {
        made->own.resize(made->size);
        made->bytes = made->own.data();
      }
      if (host != nullptr) std::memcpy(made->bytes, host, made->size);
      return Yes<cl_mem>(error, std::move(made));
    };
    table_.clEnqueueWriteImage = [](cl_command_queue queue, cl_mem to, cl_bool, const std::size_t* origin,
                                    const std::size_t* region, std::size_t, std::size_t, const void* from,
                                    cl_uint count, const cl_event* waits, cl_event* event) {
      auto image = Share<Memory>(to);
      Box part{};
      if (!image->image || !PartOf(*image, origin, region, part)) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event, [image, part, from] {
        CopyBox(image->bytes, part, static_cast<const std::byte*>(from), Packed(part));
      });
    };
    table_.clEnqueueReadImage = [](cl_command_queue queue, cl_mem from, cl_bool, const std::size_t* origin,
                                   const std::size_t* region, std::size_t, std::size_t, void* to, cl_uint count,
                                   const cl_event* waits, cl_event* event) {
      auto image = Share<Memory>(from);
      Box part{};
      if (!image->image || !PartOf(*image, origin, region, part)) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [image, part, to] { CopyBox(static_cast<std::byte*>(to), Packed(part), image->bytes, part); });
    };
    table_.clEnqueueCopyImage = [](cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_origin,
                                   const std::size_t* to_origin, const std::size_t* region, cl_uint count,
                                   const cl_event* waits, cl_event* event) {
      auto source = Share<Memory>(from), target = Share<Memory>(to);
      Box here{}, there{};
      if (!source->image || !target->image || source->pixel != target->pixel ||
          !PartOf(*source, from_origin, region, here) || !PartOf(*target, to_origin, region, there))
        return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [source, target, here, there] { CopyBox(target->bytes, there, source->bytes, here); });
    };
    table_.clEnqueueFillImage = [](cl_command_queue queue, cl_mem to, const void* colour, const std::size_t* origin,
                                   const std::size_t* region, cl_uint count, const cl_event* waits, cl_event* event) {
      auto image = Share<Memory>(to);
      Box part{};
      Touch(colour, 16);
      if (!image->image || !PartOf(*image, origin, region, part)) return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event, [] {});
    };
    table_.clEnqueueCopyImageToBuffer = [](cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* origin,
                                           const std::size_t* region, std::size_t at, cl_uint count,
                                           const cl_event* waits, cl_event* event) {
      auto image = Share<Memory>(from), buffer = Share<Memory>(to);
      Box part{};
      if (!image->image || !PartOf(*image, origin, region, part) || !Holds(*buffer, at, Packed(part).slice * region[2]))
        return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [image, buffer, part, at] { CopyBox(buffer->bytes + at, Packed(part), image->bytes, part); });
    };
    table_.clEnqueueCopyBufferToImage = [](cl_command_queue queue, cl_mem from, cl_mem to, std::size_t at,
                                           const std::size_t* origin, const std::size_t* region, cl_uint count,
                                           const cl_event* waits, cl_event* event) {
      auto buffer = Share<Memory>(from), image = Share<Memory>(to);
      Box part{};
      if (!image->image || !PartOf(*image, origin, region, part) || !Holds(*buffer, at, Packed(part).slice * region[2]))
        return CL_INVALID_VALUE;
      return Enqueue(queue, count, waits, event,
                     [image, buffer, part, at] { CopyBox(image->bytes, part, buffer->bytes + at, Packed(part)); });
    };
  }

  void Commands() {
    using namespace strict_cl;
    table_.clEnqueueNDRangeKernel = [](cl_command_queue queue, cl_kernel handle, cl_uint dimensions, const std::size_t*,
                                       const std::size_t* global, const std::size_t* local, cl_uint count,
                                       const cl_event* waits, cl_event* event) {
      const auto& kernel = Of<Kernel>(handle);
      if (!std::ranges::all_of(kernel.set, std::identity{})) return CL_INVALID_KERNEL_ARGS;
      if (dimensions < 1 || dimensions > 3) return CL_INVALID_WORK_DIMENSION;
      for (cl_uint i = 0; i < dimensions; ++i) {
        if (global[i] == 0) return CL_INVALID_GLOBAL_WORK_SIZE;
        if (local != nullptr && (local[i] == 0 || global[i] % local[i] != 0)) return CL_INVALID_WORK_GROUP_SIZE;
      }
      auto buffer = kernel.buffer != nullptr ? Share<Memory>(kernel.buffer) : nullptr;
      auto image = Share<Memory>(kernel.image);
      Of<Sampler>(kernel.sampler);
      return Enqueue(queue, count, waits, event, [buffer, image] {
        if (buffer) ++reinterpret_cast<unsigned char&>(buffer->bytes[buffer->size - 1]);
        Touch(image->bytes, image->size);
      });
    };
    table_.clEnqueueMigrateMemObjects = [](cl_command_queue queue, cl_uint objects, const cl_mem* memories,
                                           cl_mem_migration_flags, cl_uint count, const cl_event* waits,
                                           cl_event* event) {
      for (cl_uint i = 0; i < objects; ++i) Of<Memory>(memories[i]);
      return objects == 0 ? CL_INVALID_VALUE : Enqueue(queue, count, waits, event, [] {});
    };
    table_.clEnqueueMarkerWithWaitList = [](cl_command_queue queue, cl_uint count, const cl_event* waits,
                                            cl_event* event) {
      return Enqueue(
          queue, count, waits, event, [] {}, count == 0);
    };
    table_.clEnqueueBarrierWithWaitList = [](cl_command_queue queue, cl_uint count, const cl_event* waits,
                                             cl_event* event) {
      return Enqueue(
          queue, count, waits, event, [] {}, true);
    };
    table_.clFlush = [](cl_command_queue queue) -> cl_int {
      Of<Queue>(queue);
      return CL_SUCCESS;
    };
    table_.clFinish = [](cl_command_queue queue) -> cl_int {
      if (!Of<Queue>(queue).idle()) Die("clFinish would never return: it waits for an event that is never set");
      return CL_SUCCESS;
    };
  }

  static bool Holds(const strict_cl::Memory& memory, std::size_t at, std::size_t size) {
    return size > 0 && at <= memory.size && size <= memory.size - at;
  }
  static cl_program MakeProgram(cl_context context, cl_int* error) {
    auto program = std::make_shared<strict_cl::Program>();
    program->context = strict_cl::Share<strict_cl::Context>(context);
    if (Refuses()) return No<cl_program>(error, CL_OUT_OF_HOST_MEMORY);
    return Yes<cl_program>(error, std::move(program));
  }
  static cl_int Compile(cl_program handle, cl_uint count, const cl_device_id* devices, const char* options) {
    auto& program = strict_cl::Of<strict_cl::Program>(handle);
    for (cl_uint i = 0; i < count; ++i) strict_cl::Of<strict_cl::Device>(devices[i]);
    strict_cl::Touch(options, std::strlen(options));
    if (Refuses()) return CL_BUILD_PROGRAM_FAILURE;
    program.built = true;
    return CL_SUCCESS;
  }
  static std::shared_ptr<strict_cl::Kernel> MakeKernel(cl_program program) {
    auto kernel = std::make_shared<strict_cl::Kernel>();
    kernel->program = strict_cl::Share<strict_cl::Program>(program);
    return kernel;
  }
  template <typename Handle, typename T>
  static Handle ReadAs(const void* value) {
    Handle handle = nullptr;
    std::memcpy(&handle, value, sizeof handle);
    strict_cl::Of<T>(handle);
    return handle;
  }

  cl_icd_dispatch table_{};
  strict_cl::Device device_, part_;
  unsigned refuse_in_ = 0;
};

}  // namespace weir::testing
