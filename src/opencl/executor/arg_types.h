// SPDX-License-Identifier: Apache-2.0
// Decides what a kernel's arguments may be set to. A driver reads one of its own handles where it expects an object,
// and many drivers do not check it. Therefore a client's bytes are passed only for arguments that are certainly values.
//
// The driver reports an argument's address space and access qualifiers, which identify buffers, images and local
// memory. Values and samplers are identified only by the name of their type, and a program can define any type name.
// Therefore a name is trusted only if every OpenCL C compiler defines it before the program begins (int, float4 …), or
// if it is sampler_t. For any other name the executor probes the driver with a kernel object of its own, using only
// zeros. By the specification clSetKernelArg returns CL_INVALID_ARG_SIZE for a handle of any size but a pointer's,
// CL_INVALID_SAMPLER (or CL_INVALID_DEVICE_QUEUE) for a null handle, and CL_INVALID_ARG_VALUE for a value without
// bytes. Two tests follow:
//
//   odd size     zeros of a size that no handle has are accepted: a value. PoCL 3.1 accepts them for any structure or
//                typedef.
//   null handle  zeros of a handle's size are accepted, and no bytes at all are not: a value. Other drivers know a
//                structure's size; for a structure of eight bytes only this test remains.
//
// PoCL 3.1 accepts a null sampler, against the specification. Therefore each test is first tried, once in an executor's
// life, on a sampler under its own name and under another, on an image, and on a queue if the device has device-side
// queues. A test that takes one of them for a value is not used. If no test remains, such arguments cannot be set.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "opencl/channel/cl.h"

namespace weir::opencl {

enum class ArgTakes : std::uint8_t {
  kUntold,   // the driver reports nothing about the kernel's arguments
  kUnknown,  // a type defined by the program, until a test has shown that it is a value
  kValue,
  kBuffer,
  kImage,
  kSampler,
  kLocal,
  kNothing,  // a kind of object that clients cannot create
};

/// The kinds of all arguments as the driver reports them; kUntold for all if it does not.
std::vector<ArgTakes> WhatArgsTake(const cl_icd_dispatch& cl, cl_kernel kernel);

/// The tests above for one device. Thread-safe.
class ArgProbe {
 public:
  /// Whether argument `index` of the program's kernel `name` is a value that may be set to `size` bytes of a client.
  bool IsValue(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name, cl_uint index,
               std::size_t size);
  /// Whether the driver checks a sampler that is set there, and does not take the argument for another kind of handle.
  bool IsSampler(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name, cl_uint index);

  /// Whether a buffer may be set although the driver reports nothing: of all objects, only buffers may be null.
  bool IsBuffer(const cl_icd_dispatch& cl, cl_device_id device, cl_program program, const char* name, cl_uint index);

 private:
  void TryOnHandles(const cl_icd_dispatch& cl, cl_device_id device);
  bool TryOn(const cl_icd_dispatch& cl, cl_device_id device, const char* options, const char* source, cl_uint args);

  std::once_flag tried_;
  // The tests that distinguish values and buffers from the handles on which they were tried.
  bool odd_size_ = false, null_handle_ = false, no_bytes_ = false;
};

}  // namespace weir::opencl
