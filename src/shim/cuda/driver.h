// SPDX-License-Identifier: Apache-2.0
// Inside Weir's libcuda.so.1: the functions of the real driver, by number.
//
//   driver.cc         opens the driver
//   forward.S         passes functions on
//   calls.cc          the functions that put work on a device
//   look_up.cc        cuGetProcAddress: gives out Weir's functions in place of the driver's
//   streams.cc        what is measured of each stream
//   context_clock.cc  the times of a context's events
//   registry.cc       which streams there are
//   wait_calls.cc     the functions in which the program waits, or asks whether work is done
//   memory_calls.cc   the functions that allocate and free device memory, and those that say how much there is
//   pool_calls.cc     which pools of memory are the host's
//   graph_calls.cc    the functions that make and end graphs which may allocate memory
//   graph_memory.cc   what these graphs hold
//   context_calls.cc  the functions that make and end contexts
//   claims.cc         claims to memory around the driver's calls
//   allocations.cc    what the program holds
//
// Names and signatures are those of the CUDA Driver API Reference. Types are declared here, so that no file of NVIDIA's
// is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::shim::cuda {

// Names of the driver's types.
using CudaResult = int;
using CudaPointer = unsigned long long;
using CudaHandle = void*;  // contexts, streams, events, kernels, arrays, graphs

constexpr CudaResult kSuccess = 0, kOutOfMemory = 2, kStubLibrary = 34, kNotFound = 500, kNotReady = 600;

enum Function : std::size_t {
#define WEIR_FUNCTION(name) kCall_##name,
#define WEIR_HOOKED(name) kCall_##name,
#include "shim/cuda/driver_functions.inc"
#undef WEIR_FUNCTION
#undef WEIR_HOOKED
  kFunctions
};

/// The driver's functions. No entry is null: a function that the driver lacks fails.
extern "C" void* weir_cuda_driver[kFunctions];  // NOLINT(readability-identifier-naming)

template <typename Type>
Type* Driver(Function function) {
  return reinterpret_cast<Type*>(weir_cuda_driver[function]);
}

/// Whether the driver has the function.
bool DriverHas(Function function);

}  // namespace weir::shim::cuda
