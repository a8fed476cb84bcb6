// SPDX-License-Identifier: Apache-2.0
// What the arguments of a kernel may be set to. A driver reads a handle of its own where it wants an object, and many
// do not check it: so a client's bytes reach only arguments that are values without doubt.
//
// The driver tells an argument's address space and access, which make buffers, images and memory of the group known. It
// names values and samplers by their type, and a program names types as it likes. So a type's name is believed only if
// every OpenCL C compiler defines it before the program begins (int, float4 …) or if it is sampler_t itself. For any
// other name the driver is asked with a kernel object of the executor's own and with zeros only. By the specification
// clSetKernelArg answers CL_INVALID_ARG_SIZE for a handle of any size but a pointer's, CL_INVALID_SAMPLER (or
// CL_INVALID_DEVICE_QUEUE) for a null handle, and CL_INVALID_ARG_VALUE for a value without bytes. Two tests follow:
//
//   odd size     zeros of a size that no handle has are accepted: a value. PoCL 3.1 does so for any structure or
//   typedef. null handle  zeros of a handle's size are accepted, no bytes at all are not: a value. Other drivers know a
//                structure's size, and for one of eight bytes this test alone is left.
//
// PoCL 3.1 accepts a null sampler, against the specification. So each test is first tried, once in an executor's life,
// on a sampler under its own name and under another, on an image, and on a queue where the device has queues of its
// own; a test that takes one of them for a value is not used. Where no test is left, such arguments can't be set.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "opencl/channel/cl.h"

namespace weir::opencl {

enum class ArgTakes : std::uint8_t {
  kUntold,   // the driver tells nothing of the kernel's arguments
  kUnknown,  // a type that the program has named, until a test has shown a value
  kValue,
  kBuffer,
  kImage,
  kSampler,
  kLocal,
  kNothing,  // a kind of object that clients can't make
};

/// Of each argument, as the driver tells; kUntold for all of them when it does not.
std::vector<ArgTakes> WhatArgsTake(const cl_icd_dispatch& cl, cl_kernel kernel);

/// The tests above for one device. Thread-safe.
class ArgProbe {
 public:
  /// Whether argument `index` of the program's kernel `name` is a value, and may be set to `size` bytes of a client's.
  bool IsValue(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name, cl_uint index,
               std::size_t size);
  /// Whether the driver checks a sampler that is set there: it takes the argument for nothing else that has a handle.
  bool IsSampler(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name, cl_uint index);

  /// Whether a buffer may be set there, where the driver tells nothing: of all objects only buffers may be left out.
  bool IsBuffer(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name, cl_uint index);

 private:
  void TryOnHandles(const cl_icd_dispatch& cl, cl_device_id device);
  bool TryOn(const cl_icd_dispatch& cl, cl_device_id device, const char* options, const char* source, cl_uint args);

  std::once_flag tried_;
  // Which tests tell values and buffers from the handles that they were tried on.
  bool odd_size_ = false, null_handle_ = false, no_bytes_ = false;
};

}  // namespace weir::opencl
