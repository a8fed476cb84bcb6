// SPDX-License-Identifier: Apache-2.0
// The table of functions of a child process that was forked without exec: every function fails. The child has neither
// the driver's threads nor PoCL's, locks may be held for ever, and the connection to the emulator is its parent's.
#include <unistd.h>

#include <string_view>
#include <tuple>
#include <type_traits>

#include "emulator/opencl/backend.h"

namespace weir::emulator::cl {
namespace {

constexpr cl_int kGone = CL_OUT_OF_RESOURCES;

void SayOnce() {
  static bool said = false;
  if (said) return;
  said = true;
  constexpr std::string_view kText =
      "weir: the emulated GPU belongs to the parent of this process: OpenCL calls fail here until an exec\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
}

template <typename R, typename... A>
R CL_API_CALL Fails(A... arguments) {
  SayOnce();
  if constexpr (std::is_pointer_v<R> && sizeof...(A) > 0) {
    // A function that creates an object returns its error through its last argument.
    const auto last = std::get<sizeof...(A) - 1>(std::tie(arguments...));
    if constexpr (std::is_same_v<decltype(last), cl_int* const>)
      if (last != nullptr) *last = kGone;
    return nullptr;
  } else if constexpr (!std::is_void_v<R>) {
    return kGone;
  }
}

template <typename R, typename... A>
void Fail(R(CL_API_CALL*& slot)(A...)) {
  slot = Fails<R, A...>;
}

template <typename... Slot>
void FailAll(Slot&... slots) {
  (Fail(slots), ...);
}

void FailObjects(cl_icd_dispatch& t) {
  FailAll(t.clGetPlatformIDs, t.clGetPlatformInfo, t.clGetDeviceIDs, t.clGetDeviceInfo, t.clCreateContext,
          t.clCreateContextFromType, t.clRetainContext, t.clReleaseContext, t.clGetContextInfo, t.clCreateCommandQueue,
          t.clCreateCommandQueueWithProperties, t.clRetainCommandQueue, t.clReleaseCommandQueue,
          t.clGetCommandQueueInfo, t.clSetCommandQueueProperty, t.clSetDefaultDeviceCommandQueue,
          t.clSetContextDestructorCallback, t.clCreateSubDevices, t.clRetainDevice, t.clReleaseDevice,
          t.clGetDeviceAndHostTimer, t.clGetHostTimer, t.clGetExtensionFunctionAddress,
          t.clGetExtensionFunctionAddressForPlatform, t.clUnloadCompiler, t.clUnloadPlatformCompiler);
  FailAll(t.clCreateProgramWithSource, t.clCreateProgramWithBinary, t.clCreateProgramWithBuiltInKernels,
          t.clCreateProgramWithIL, t.clRetainProgram, t.clReleaseProgram, t.clBuildProgram, t.clCompileProgram,
          t.clLinkProgram, t.clGetProgramInfo, t.clGetProgramBuildInfo, t.clSetProgramReleaseCallback,
          t.clSetProgramSpecializationConstant, t.clCreateKernel, t.clCreateKernelsInProgram, t.clCloneKernel,
          t.clRetainKernel, t.clReleaseKernel, t.clSetKernelArg, t.clSetKernelArgSVMPointer, t.clSetKernelExecInfo,
          t.clGetKernelInfo, t.clGetKernelArgInfo, t.clGetKernelWorkGroupInfo, t.clGetKernelSubGroupInfo,
          t.clGetKernelSubGroupInfoKHR);
}

void FailMemory(cl_icd_dispatch& t) {
  FailAll(t.clCreateBuffer, t.clCreateBufferWithProperties, t.clCreateSubBuffer, t.clCreateImage,
          t.clCreateImageWithProperties, t.clCreateImage2D, t.clCreateImage3D, t.clCreatePipe, t.clGetPipeInfo,
          t.clRetainMemObject, t.clReleaseMemObject, t.clGetSupportedImageFormats, t.clGetMemObjectInfo,
          t.clGetImageInfo, t.clSetMemObjectDestructorCallback, t.clCreateSampler, t.clCreateSamplerWithProperties,
          t.clRetainSampler, t.clReleaseSampler, t.clGetSamplerInfo, t.clSVMAlloc, t.clSVMFree);
}

void FailCommands(cl_icd_dispatch& t) {
  FailAll(t.clWaitForEvents, t.clGetEventInfo, t.clRetainEvent, t.clReleaseEvent, t.clGetEventProfilingInfo,
          t.clSetEventCallback, t.clCreateUserEvent, t.clSetUserEventStatus, t.clFlush, t.clFinish);
  FailAll(t.clEnqueueReadBuffer, t.clEnqueueReadBufferRect, t.clEnqueueWriteBuffer, t.clEnqueueWriteBufferRect,
          t.clEnqueueCopyBuffer, t.clEnqueueCopyBufferRect, t.clEnqueueFillBuffer, t.clEnqueueReadImage,
          t.clEnqueueWriteImage, t.clEnqueueCopyImage, t.clEnqueueFillImage, t.clEnqueueCopyImageToBuffer,
          t.clEnqueueCopyBufferToImage, t.clEnqueueMapBuffer, t.clEnqueueMapImage, t.clEnqueueUnmapMemObject,
          t.clEnqueueMigrateMemObjects, t.clEnqueueNDRangeKernel, t.clEnqueueTask, t.clEnqueueNativeKernel,
          t.clEnqueueMarker, t.clEnqueueMarkerWithWaitList, t.clEnqueueBarrier, t.clEnqueueBarrierWithWaitList,
          t.clEnqueueWaitForEvents, t.clEnqueueSVMFree, t.clEnqueueSVMMemcpy, t.clEnqueueSVMMemFill, t.clEnqueueSVMMap,
          t.clEnqueueSVMUnmap, t.clEnqueueSVMMigrateMem);
}

}  // namespace

void FailAllCalls(cl_icd_dispatch& table) {
  FailObjects(table);
  FailMemory(table);
  FailCommands(table);
}

}  // namespace weir::emulator::cl
