// SPDX-License-Identifier: Apache-2.0
// The OpenCL functions that this library implements, in the order of the dispatch table. dispatch.cc fills the other
// slots with functions that report a missing feature. A definition whose type differs from the table's does not link.
#pragma once

#include <type_traits>

#include "opencl/icd/cl_api.h"

// Formatted by hand, because clang-format's result is not stable here.
// clang-format off
#define WEIR_ENTRY_POINTS(X) \
  X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo) X(CreateContext) X(CreateContextFromType) \
  X(RetainContext) X(ReleaseContext) X(GetContextInfo) X(CreateCommandQueue) X(RetainCommandQueue) \
  X(ReleaseCommandQueue) X(GetCommandQueueInfo) X(SetCommandQueueProperty) X(CreateBuffer) X(CreateImage2D) \
  X(CreateImage3D) X(RetainMemObject) X(ReleaseMemObject) X(GetSupportedImageFormats) X(GetMemObjectInfo) \
  X(GetImageInfo) X(CreateSampler) X(RetainSampler) X(ReleaseSampler) X(GetSamplerInfo) X(CreateProgramWithSource) \
  X(CreateProgramWithBinary) X(RetainProgram) X(ReleaseProgram) X(BuildProgram) X(UnloadCompiler) X(GetProgramInfo) \
  X(GetProgramBuildInfo) X(CreateKernel) X(CreateKernelsInProgram) X(RetainKernel) X(ReleaseKernel) X(SetKernelArg) \
  X(GetKernelInfo) X(GetKernelWorkGroupInfo) X(WaitForEvents) X(GetEventInfo) X(RetainEvent) X(ReleaseEvent) \
  X(GetEventProfilingInfo) X(Flush) X(Finish) X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer) \
  X(EnqueueReadImage) X(EnqueueWriteImage) X(EnqueueCopyImage) X(EnqueueCopyImageToBuffer) \
  X(EnqueueCopyBufferToImage) X(EnqueueMapBuffer) X(EnqueueMapImage) X(EnqueueUnmapMemObject) \
  X(EnqueueNDRangeKernel) X(EnqueueTask) X(EnqueueMarker) X(EnqueueWaitForEvents) X(EnqueueBarrier) \
  X(GetExtensionFunctionAddress) X(SetEventCallback) X(CreateSubBuffer) X(SetMemObjectDestructorCallback) \
  X(CreateUserEvent) X(SetUserEventStatus) X(EnqueueReadBufferRect) X(EnqueueWriteBufferRect) \
  X(EnqueueCopyBufferRect) X(CreateSubDevices) X(RetainDevice) X(ReleaseDevice) X(CreateImage) X(CompileProgram) \
  X(LinkProgram) X(UnloadPlatformCompiler) X(GetKernelArgInfo) X(EnqueueFillBuffer) X(EnqueueFillImage) \
  X(EnqueueMigrateMemObjects) X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList) \
  X(GetExtensionFunctionAddressForPlatform) X(CreateCommandQueueWithProperties) X(CreateSamplerWithProperties) \
  X(CloneKernel) X(GetDeviceAndHostTimer) X(GetHostTimer) X(CreateBufferWithProperties) \
  X(CreateImageWithProperties) X(SetContextDestructorCallback)
// clang-format on

namespace weir::opencl::icd {

namespace api {
#define WEIR_DECLARE(name) std::remove_pointer_t<cl_api_cl##name> name;
WEIR_ENTRY_POINTS(WEIR_DECLARE)
#undef WEIR_DECLARE
}  // namespace api

/// The table to which every object's first member points. No slot is null.
extern const cl_icd_dispatch kDispatch __asm__("weir_opencl_dispatch") __attribute__((visibility("default")));

}  // namespace weir::opencl::icd
