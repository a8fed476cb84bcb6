// SPDX-License-Identifier: Apache-2.0
// Programs and kernels of strict_opencl.h's driver, and the facts that it tells of objects.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "opencl/channel/cl.h"
#include "tests/harness/strict_opencl_driver.h"
#include "tests/harness/strict_opencl_objects.h"

namespace weir::testing::strict_cl {

inline cl_program MakeProgram(cl_context context, cl_int* error) {
  auto program = std::make_shared<Program>();
  program->context = Share<Context>(context);
  if (Refuses()) return No<cl_program>(error, CL_OUT_OF_HOST_MEMORY);
  return Yes<cl_program>(error, std::move(program));
}
inline cl_int Compile(cl_program handle, cl_uint count, const cl_device_id* devices, const char* options) {
  auto& program = Of<Program>(handle);
  for (cl_uint i = 0; i < count; ++i) Of<Device>(devices[i]);
  Touch(options, std::strlen(options));
  if (Refuses()) return CL_BUILD_PROGRAM_FAILURE;
  program.built = true;
  return CL_SUCCESS;
}
inline std::shared_ptr<Kernel> MakeKernel(cl_program program) {
  auto kernel = std::make_shared<Kernel>();
  kernel->program = Share<Program>(program);
  return kernel;
}

template <typename Handle, typename T>
Handle ReadAs(const void* value) {
  Handle handle = nullptr;
  std::memcpy(&handle, value, sizeof handle);
  Of<T>(handle);
  return handle;
}

inline void AddProgramCalls(cl_icd_dispatch& table) {
  table.clCreateProgramWithSource = [](cl_context context, cl_uint count, const char** texts,
                                       const std::size_t* lengths, cl_int* error) -> cl_program {
    for (cl_uint i = 0; i < count; ++i) Touch(texts[i], lengths[i]);
    return MakeProgram(context, error);
  };
  table.clCreateProgramWithBinary = [](cl_context context, cl_uint count, const cl_device_id* devices,
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
  table.clReleaseProgram = Release<Program, cl_program>;
  table.clBuildProgram = [](cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                            void(CL_CALLBACK*)(cl_program, void*),
                            void*) -> cl_int { return Compile(program, count, devices, options); };
  table.clCompileProgram = [](cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                              cl_uint headers, const cl_program* header_programs, const char** names,
                              void(CL_CALLBACK*)(cl_program, void*), void*) -> cl_int {
    for (cl_uint i = 0; i < headers; ++i) {
      Of<Program>(header_programs[i]);
      Touch(names[i], std::strlen(names[i]));
    }
    return Compile(program, count, devices, options);
  };
  table.clLinkProgram = [](cl_context context, cl_uint count, const cl_device_id* devices, const char* options,
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
}

inline void AddKernelCalls(cl_icd_dispatch& table) {
  table.clCreateKernel = [](cl_program program, const char* name, cl_int* error) -> cl_kernel {
    if (!Of<Program>(program).built) return No<cl_kernel>(error, CL_INVALID_PROGRAM_EXECUTABLE);
    if (std::strcmp(name, "a") != 0 || Refuses()) return No<cl_kernel>(error, CL_INVALID_KERNEL_NAME);
    return Yes<cl_kernel>(error, MakeKernel(program));
  };
  table.clCreateKernelsInProgram = [](cl_program program, cl_uint room, cl_kernel* kernels, cl_uint* count) -> cl_int {
    if (!Of<Program>(program).built) return CL_INVALID_PROGRAM_EXECUTABLE;
    if (count != nullptr) *count = 1;
    if (kernels == nullptr) return CL_SUCCESS;
    if (room < 1 || Refuses()) return CL_INVALID_VALUE;
    kernels[0] = Give<cl_kernel>(MakeKernel(program));
    return CL_SUCCESS;
  };
  table.clReleaseKernel = Release<Kernel, cl_kernel>;
  table.clSetKernelArg = [](cl_kernel handle, cl_uint index, std::size_t size, const void* value) -> cl_int {
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

inline void AddProgramInfo(cl_icd_dispatch& table) {
  table.clGetProgramInfo = [](cl_program handle, cl_program_info name, std::size_t room, void* value,
                              std::size_t* size) -> cl_int {
    Of<Program>(handle);
    constexpr std::size_t kBinaryBytes = 16;
    if (name == CL_PROGRAM_NUM_DEVICES) return Tell(cl_uint{1}, room, value, size);
    if (name == CL_PROGRAM_DEVICES) return Tell(Current()->device_id(), room, value, size);
    if (name == CL_PROGRAM_BINARY_SIZES) return Tell(kBinaryBytes, room, value, size);
    if (name != CL_PROGRAM_BINARIES || room < sizeof(char*)) return CL_INVALID_VALUE;
    if (auto* const to = static_cast<unsigned char**>(value)[0]) std::memset(to, 7, kBinaryBytes);
    return CL_SUCCESS;
  };
  table.clGetProgramBuildInfo = [](cl_program handle, cl_device_id device, cl_program_build_info name, std::size_t room,
                                   void* value, std::size_t* size) -> cl_int {
    const auto& program = Of<Program>(handle);
    Of<Device>(device);
    if (name == CL_PROGRAM_BUILD_STATUS)
      return Tell(cl_build_status{program.built ? CL_BUILD_SUCCESS : CL_BUILD_NONE}, room, value, size);
    if (name == CL_PROGRAM_BINARY_TYPE)
      return Tell(cl_program_binary_type{CL_PROGRAM_BINARY_TYPE_EXECUTABLE}, room, value, size);
    if (name == CL_PROGRAM_BUILD_LOG) return Tell("said", room, value, size);
    return CL_INVALID_VALUE;
  };
  table.clGetKernelInfo = [](cl_kernel kernel, cl_kernel_info name, std::size_t room, void* value,
                             std::size_t* size) -> cl_int {
    Of<Kernel>(kernel);
    if (name == CL_KERNEL_NUM_ARGS) return Tell(Kernel::kArgs, room, value, size);
    if (name == CL_KERNEL_FUNCTION_NAME) return Tell("a", room, value, size);
    return CL_INVALID_VALUE;
  };
  table.clGetKernelArgInfo = [](cl_kernel kernel, cl_uint index, cl_kernel_arg_info name, std::size_t room, void* value,
                                std::size_t* size) -> cl_int {
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
  table.clGetKernelWorkGroupInfo = [](cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name,
                                      std::size_t room, void* value, std::size_t* size) -> cl_int {
    Of<Kernel>(kernel);
    Of<Device>(device);
    if (name == CL_KERNEL_WORK_GROUP_SIZE) return Tell(std::size_t{256}, room, value, size);
    if (name == CL_KERNEL_COMPILE_WORK_GROUP_SIZE) return Tell(std::array<std::size_t, 3>{}, room, value, size);
    return CL_INVALID_VALUE;
  };
}

inline void AddObjectInfo(cl_icd_dispatch& table) {
  table.clGetPlatformInfo = [](cl_platform_id, cl_platform_info, std::size_t, void*, std::size_t*) -> cl_int {
    return CL_INVALID_VALUE;
  };
  table.clGetDeviceInfo = [](cl_device_id device, cl_device_info name, std::size_t room, void* value,
                             std::size_t* size) -> cl_int {
    Of<Device>(device);
    if (name == CL_DEVICE_NAME) return Tell("strict", room, value, size);
    if (name == CL_DEVICE_GLOBAL_MEM_SIZE) return Tell(cl_ulong{1} << 30, room, value, size);
    return CL_INVALID_VALUE;
  };
  table.clGetMemObjectInfo = [](cl_mem memory, cl_mem_info name, std::size_t room, void* value,
                                std::size_t* size) -> cl_int {
    return name == CL_MEM_SIZE ? Tell(Of<Memory>(memory).size, room, value, size) : CL_INVALID_VALUE;
  };
  table.clGetImageInfo = [](cl_mem memory, cl_image_info name, std::size_t room, void* value,
                            std::size_t* size) -> cl_int {
    const auto& image = Of<Memory>(memory);
    if (!image.image) return CL_INVALID_MEM_OBJECT;
    return name == CL_IMAGE_ELEMENT_SIZE ? Tell(image.pixel, room, value, size) : CL_INVALID_VALUE;
  };
  table.clGetSupportedImageFormats = [](cl_context context, cl_mem_flags, cl_mem_object_type, cl_uint room,
                                        cl_image_format* formats, cl_uint* count) -> cl_int {
    Of<Context>(context);
    if (count != nullptr) *count = 2;
    for (cl_uint i = 0; formats != nullptr && i < std::min<cl_uint>(room, 2); ++i) formats[i] = {i, i};
    return CL_SUCCESS;
  };
  table.clGetEventInfo = [](cl_event handle, cl_event_info name, std::size_t room, void* value,
                            std::size_t* size) -> cl_int {
    const auto& event = Of<Event>(handle);
    return name == CL_EVENT_COMMAND_EXECUTION_STATUS ? Tell(event.status, room, value, size) : CL_INVALID_VALUE;
  };
  table.clGetEventProfilingInfo = [](cl_event handle, cl_profiling_info name, std::size_t room, void* value,
                                     std::size_t* size) -> cl_int {
    const auto& event = Of<Event>(handle);
    if (event.user || !event.timed || event.status != CL_COMPLETE) return CL_PROFILING_INFO_NOT_AVAILABLE;
    return Tell(cl_ulong{1000} + name, room, value, size);
  };
}

}  // namespace weir::testing::strict_cl
