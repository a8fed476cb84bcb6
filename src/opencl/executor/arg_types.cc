// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/arg_types.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "opencl/channel/arg_names.h"
#include "opencl/channel/limits.h"

namespace weir::opencl {
namespace {

constexpr std::size_t kHandleBytes = sizeof(void*);
constexpr std::size_t kProbeBytesMax = 4096;  // more than any device's limit of a kernel's arguments
constexpr std::array<std::size_t, 5> kOddSizes{1, 4, 12, 16, 24};

/// Types that every OpenCL C compiler defines before the program begins, so that no program can give the name to
/// another type.
bool IsBuiltInValue(std::string_view type) {
  constexpr std::array<std::string_view, 9> kScalars{"char", "uchar", "short", "ushort", "int",
                                                     "uint", "long",  "ulong", "float"};
  constexpr std::array<std::string_view, 6> kWidths{"", "2", "3", "4", "8", "16"};
  return std::ranges::any_of(kScalars, [type, &kWidths](std::string_view scalar) {
    return type.starts_with(scalar) && std::ranges::find(kWidths, type.substr(scalar.size())) != kWidths.end();
  });
}

ArgTakes WhatArgTakes(const cl_icd_dispatch& cl, cl_kernel kernel, cl_uint index) {
  cl_kernel_arg_address_qualifier address = 0;
  if (cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, nullptr) !=
      CL_SUCCESS)
    return ArgTakes::kUntold;
  cl_kernel_arg_access_qualifier access = CL_KERNEL_ARG_ACCESS_NONE;
  if (cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access, nullptr) !=
      CL_SUCCESS)
    return ArgTakes::kUntold;
  cl_kernel_arg_type_qualifier qualifiers = 0;
  if (cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifiers, &qualifiers, nullptr) !=
      CL_SUCCESS)
    return ArgTakes::kUntold;
  std::array<char, 64> name{};
  if (cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, name.size(), name.data(), nullptr) != CL_SUCCESS)
    name[0] = '\0';  // a longer name is defined by the program
  const std::string_view type(name.data(), ::strnlen(name.data(), name.size()));
  if (IsPipeArg(qualifiers, type)) return ArgTakes::kNothing;
  if (IsImageArg(access, type)) return ArgTakes::kImage;
  if (address == CL_KERNEL_ARG_ADDRESS_GLOBAL || address == CL_KERNEL_ARG_ADDRESS_CONSTANT) return ArgTakes::kBuffer;
  if (address == CL_KERNEL_ARG_ADDRESS_LOCAL) return ArgTakes::kLocal;
  if (type == "sampler_t") return ArgTakes::kSampler;
  return IsBuiltInValue(type) ? ArgTakes::kValue : ArgTakes::kUnknown;
}

bool AcceptsZeros(const cl_icd_dispatch& cl, cl_kernel kernel, cl_uint index, std::size_t size) {
  if (size == 0 || size > kProbeBytesMax) return false;
  const std::vector<std::byte> zeros(size);
  return cl.clSetKernelArg(kernel, index, size, zeros.data()) == CL_SUCCESS;
}

bool AcceptsNoBytes(const cl_icd_dispatch& cl, cl_kernel kernel, cl_uint index) {
  return cl.clSetKernelArg(kernel, index, kHandleBytes, nullptr) == CL_SUCCESS;
}

bool AcceptsOddSize(const cl_icd_dispatch& cl, cl_kernel kernel, cl_uint index) {
  return std::ranges::any_of(kOddSizes, [&](std::size_t size) { return AcceptsZeros(cl, kernel, index, size); });
}

bool AcceptsZerosOnly(const cl_icd_dispatch& cl, cl_kernel kernel, cl_uint index) {
  return AcceptsZeros(cl, kernel, index, kHandleBytes) && !AcceptsNoBytes(cl, kernel, index);
}

/// Calls `each(kernel)` with a newly created kernel object. False: it could not be created.
template <typename Each>
bool WithKernel(const cl_icd_dispatch& cl, cl_program program, const char* name, Each each) {
  cl_int error = CL_SUCCESS;
  const cl_kernel kernel = cl.clCreateKernel(program, name, &error);
  if (error != CL_SUCCESS || kernel == nullptr) return false;
  each(kernel);
  cl.clReleaseKernel(kernel);
  return true;
}

}  // namespace

std::vector<ArgTakes> WhatArgsTake(const cl_icd_dispatch& cl, cl_kernel kernel) {
  cl_uint count = 0;
  if (cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr) != CL_SUCCESS) return {};
  std::vector<ArgTakes> takes(std::min(count, kArgsMax), ArgTakes::kUntold);
  for (cl_uint i = 0; i < takes.size(); ++i) {
    takes[i] = WhatArgTakes(cl, kernel, i);
    if (takes[i] != ArgTakes::kUntold) continue;
    std::ranges::fill(takes, ArgTakes::kUntold);
    break;
  }
  return takes;
}

void ArgProbe::TryOnHandles(const cl_icd_dispatch& cl, cl_device_id device) {
  std::call_once(tried_, [&] {
    odd_size_ = null_handle_ = no_bytes_ = true;
    const bool tried =
        TryOn(cl, device, "",
              "typedef sampler_t other_t; kernel void weir_probe(sampler_t a, other_t b, read_only image2d_t c) {}", 3);
    if (!tried) odd_size_ = null_handle_ = no_bytes_ = false;
    std::uint64_t queues = 0;
    if (cl.clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, sizeof queues, &queues, nullptr) ==
            CL_SUCCESS &&
        queues != 0)
      TryOn(cl, device, "-cl-std=CL2.0", "kernel void weir_probe(queue_t a) {}", 1);
  });
}

bool ArgProbe::TryOn(const cl_icd_dispatch& cl, cl_device_id device, const char* options, const char* source,
                     cl_uint args) {
  cl_int error = CL_SUCCESS;
  bool tried = false;
  const cl_context context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return false;
  const cl_program program = cl.clCreateProgramWithSource(context, 1, &source, nullptr, &error);
  if (error == CL_SUCCESS) {
    tried = cl.clBuildProgram(program, 1, &device, options, nullptr, nullptr) == CL_SUCCESS &&
            WithKernel(cl, program, "weir_probe", [&](cl_kernel kernel) {
              for (cl_uint i = 0; i < args; ++i) {
                odd_size_ = odd_size_ && !AcceptsOddSize(cl, kernel, i);
                null_handle_ = null_handle_ && !AcceptsZerosOnly(cl, kernel, i);
                // PoCL 3.1 treats a renamed sampler as a buffer in all respects.
                no_bytes_ = no_bytes_ && (i == 1 || !AcceptsNoBytes(cl, kernel, i));
              }
            });
    cl.clReleaseProgram(program);
  }
  cl.clReleaseContext(context);
  return tried;
}

bool ArgProbe::IsValue(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name,
                       cl_uint index, std::size_t size) {
  TryOnHandles(cl, device);
  bool value = false;
  WithKernel(cl, program, name, [&](cl_kernel kernel) {
    if (odd_size_) value = AcceptsOddSize(cl, kernel, index);
    if (odd_size_ && !value && size != kHandleBytes) value = AcceptsZeros(cl, kernel, index, size);
    if (null_handle_ && !value) value = AcceptsZerosOnly(cl, kernel, index);
  });
  return value;
}

bool ArgProbe::IsSampler(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name,
                         cl_uint index) {
  TryOnHandles(cl, device);
  if (!null_handle_) return false;
  bool sampler = false;
  WithKernel(cl, program, name, [&](cl_kernel kernel) {
    sampler = !AcceptsNoBytes(cl, kernel, index) && !AcceptsZeros(cl, kernel, index, kHandleBytes);
  });
  return sampler;
}

bool ArgProbe::IsBuffer(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name,
                        cl_uint index) {
  TryOnHandles(cl, device);
  bool buffer = false;
  if (no_bytes_) WithKernel(cl, program, name, [&](cl_kernel kernel) { buffer = AcceptsNoBytes(cl, kernel, index); });
  return buffer;
}

}  // namespace weir::opencl
