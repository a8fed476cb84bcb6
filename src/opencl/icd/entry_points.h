// SPDX-License-Identifier: Apache-2.0
// The OpenCL functions that this library implements, in the order of the dispatch table, and those that report a
// missing feature. dispatch.cc fills the other slots. A definition whose type differs from the table's does not link.
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

/// Functions of features that are missing, with the error that each returns. A function that gets an implementation
/// moves to the list above.
#define WEIR_ABSENT_ENTRY_POINTS(X) \
  X(EnqueueNativeKernel, CL_INVALID_OPERATION) X(CreateProgramWithBuiltInKernels, CL_INVALID_VALUE) \
  X(CreatePipe, CL_INVALID_OPERATION) X(GetPipeInfo, CL_INVALID_MEM_OBJECT) X(SVMAlloc, CL_INVALID_OPERATION) \
  X(EnqueueSVMFree, CL_INVALID_OPERATION) X(EnqueueSVMMemcpy, CL_INVALID_OPERATION) \
  X(EnqueueSVMMemFill, CL_INVALID_OPERATION) X(EnqueueSVMMap, CL_INVALID_OPERATION) \
  X(EnqueueSVMUnmap, CL_INVALID_OPERATION) X(EnqueueSVMMigrateMem, CL_INVALID_OPERATION) \
  X(SetKernelArgSVMPointer, CL_INVALID_OPERATION) X(SetKernelExecInfo, CL_INVALID_OPERATION) \
  X(GetKernelSubGroupInfo, CL_INVALID_OPERATION) X(GetKernelSubGroupInfoKHR, CL_INVALID_OPERATION) \
  X(CreateProgramWithIL, CL_INVALID_OPERATION) X(SetDefaultDeviceCommandQueue, CL_INVALID_OPERATION) \
  X(SetProgramReleaseCallback, CL_INVALID_OPERATION) X(SetProgramSpecializationConstant, CL_INVALID_OPERATION) \
  X(CreateFromGLBuffer, CL_INVALID_OPERATION) X(CreateFromGLTexture, CL_INVALID_OPERATION) \
  X(CreateFromGLTexture2D, CL_INVALID_OPERATION) X(CreateFromGLTexture3D, CL_INVALID_OPERATION) \
  X(CreateFromGLRenderbuffer, CL_INVALID_OPERATION) X(GetGLObjectInfo, CL_INVALID_GL_OBJECT) \
  X(GetGLTextureInfo, CL_INVALID_GL_OBJECT) X(EnqueueAcquireGLObjects, CL_INVALID_OPERATION) \
  X(EnqueueReleaseGLObjects, CL_INVALID_OPERATION) X(GetGLContextInfoKHR, CL_INVALID_OPERATION) \
  X(CreateEventFromGLsyncKHR, CL_INVALID_OPERATION) X(CreateSubDevicesEXT, CL_INVALID_OPERATION) \
  X(RetainDeviceEXT, CL_INVALID_OPERATION) X(ReleaseDeviceEXT, CL_INVALID_OPERATION) \
  X(CreateFromEGLImageKHR, CL_INVALID_OPERATION) X(EnqueueAcquireEGLObjectsKHR, CL_INVALID_OPERATION) \
  X(EnqueueReleaseEGLObjectsKHR, CL_INVALID_OPERATION) X(CreateEventFromEGLSyncKHR, CL_INVALID_OPERATION)
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
