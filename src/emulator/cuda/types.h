// SPDX-License-Identifier: Apache-2.0
// Types and numbers of the CUDA Driver API Reference that the double needs. No file of NVIDIA's is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::emulator::cuda {

using Result = int;
using Device = int;
using Handle = void*;  // contexts, streams, events, modules, kernels, graphs
using Pointer = unsigned long long;

constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100,
                 kInvalidDevice = 101, kInvalidImage = 200, kInvalidContext = 201, kFileNotFound = 301,
                 kInvalidHandle = 400, kIllegalState = 401, kNotFound = 500, kNotReady = 600, kContextDestroyed = 709,
                 kNotSupported = 801, kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureImplicit = 906,
                 kCapturedEvent = 907, kCaptureWrongThread = 908, kUnknown = 999;

/// CUstreamCaptureMode.
constexpr int kGlobal = 0, kThreadLocal = 1, kRelaxed = 2;

/// The stream of a call. `per_thread`: a null stream is the thread's default stream, not the legacy one.
struct Where {
  Handle stream = nullptr;
  bool per_thread = false;
};

}  // namespace weir::emulator::cuda
