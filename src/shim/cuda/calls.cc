// SPDX-License-Identifier: Apache-2.0
// The functions that put work on a device, and those that begin and end a capture. A variant whose name ends in _ptds
// or _ptsz takes a null stream, or none, as the thread's default stream; the other one as the legacy default stream.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>

#include "platform/clock.h"
#include "shim/common/open_shim.h"
#include "shim/cuda/aside.h"
#include "shim/cuda/captures.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/graph_memory.h"
#include "shim/cuda/not_cancelled.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {

const weir_cuda_hooks* Hooks() {
  static const auto* const kHooks =
      static_cast<const weir_cuda_hooks*>(weir_open_shim("weir_cuda_shim_hooks", WEIR_CUDA_HOOKS_VERSION, &::dlsym));
  return kHooks;
}

namespace {

/// The driver's own calls, and those of Weir, do not pass the gate.
thread_local int inside = 0;

struct Where {
  CudaHandle stream = nullptr;
  bool per_thread = false;
};

/// One call that puts work on the device.
class Work {
 public:
  /// `waits`: the call may return when earlier work has ended, too.
  explicit Work(Where where, bool waits = false) : hooks_(inside == 0 ? Hooks() : nullptr), waits_(waits) {
    if (hooks_ == nullptr) return;
    ++inside;
    const int error_number = errno;
    context_ = CurrentContext();
    if (captures.load(std::memory_order_relaxed) == 0 || !IsCapturing(where.stream, where.per_thread))
      stream_ = FindStream(where.stream, where.per_thread, context_);
    if (stream_ != nullptr) {
      const NotCancelled not_cancelled;
      ends_batch_ = hooks_->before_work(&pass_, &stream_->place()) != 0;
      const RelaxedCapture relaxed(false);
      const InContext in(stream_->context(), context_);
      stream_->Begin(ends_batch_);
      if (waits_) called_ns_ = platform::NowNs();
    }
    errno = error_number;
  }
  ~Work() {
    if (hooks_ == nullptr) return;
    const int error_number = errno;
    if (stream_ != nullptr) {
      const NotCancelled not_cancelled;
      const RelaxedCapture relaxed(ends_batch_);
      const InContext in(stream_->context(), context_);
      stream_->End(ends_batch_, ends_batch_ ? platform::NowNs() : 0);
      hooks_->after_work(&pass_);
      if (waits_)
        Aside([this] { Settle(stream_->clock(), AfterWaitOf(platform::NowNs() - called_ns_, stream_->handle())); });
    }
    --inside;
    errno = error_number;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  const weir_cuda_hooks* const hooks_;
  CudaHandle context_ = nullptr;  // the thread's
  Stream* stream_ = nullptr;
  const bool waits_;
  std::int64_t called_ns_ = 0;  // if it waits
  bool ends_batch_ = false;
  weir_shim_pass pass_;
};

}  // namespace
}  // namespace weir::shim::cuda

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's
#define WEIR_WORK(name, stream, per_thread, waits, parameters, arguments) \
  WEIR_EXPORT CudaResult name parameters {                                \
    const Work work({stream, per_thread}, waits);                         \
    return Driver<CudaResult parameters>(kCall_##name) arguments;         \
  }
#define WEIR_ONE(name, stream, parameters, arguments) WEIR_WORK(name, stream, false, false, parameters, arguments)
/// Copies and memsets that return when they have been done, or at once.
#define WEIR_SYNC(name, parameters, arguments)                 \
  WEIR_WORK(name, nullptr, false, true, parameters, arguments) \
  WEIR_WORK(name##_ptds, nullptr, true, true, parameters, arguments)
#define WEIR_ASYNC(name, stream, parameters, arguments)        \
  WEIR_WORK(name, stream, false, false, parameters, arguments) \
  WEIR_WORK(name##_ptsz, stream, true, false, parameters, arguments)

/// The first members of CUlaunchConfig.
struct LaunchConfig {
  unsigned sizes[7];
  CudaHandle stream;
};
/// CUDA_LAUNCH_PARAMS: one device's part of a launch on several.
struct LaunchOnDevice {
  CudaHandle kernel;
  unsigned sizes[7];
  CudaHandle stream;
  void** parameters;
};

WEIR_ASYNC(cuLaunchKernel, stream,
           (CudaHandle kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
            unsigned block_z, unsigned shared_bytes, CudaHandle stream, void** parameters, void** extra),
           (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra))
WEIR_ASYNC(cuLaunchKernelEx, config != nullptr ? config->stream : nullptr,
           (const LaunchConfig* config, CudaHandle kernel, void** parameters, void** extra),
           (config, kernel, parameters, extra))
WEIR_ASYNC(cuLaunchCooperativeKernel, stream,
           (CudaHandle kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
            unsigned block_z, unsigned shared_bytes, CudaHandle stream, void** parameters),
           (kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters))
WEIR_ONE(cuLaunchCooperativeKernelMultiDevice, launches != nullptr && count > 0 ? launches->stream : nullptr,
         (LaunchOnDevice * launches, unsigned count, unsigned flags), (launches, count, flags))
WEIR_ONE(cuLaunch, nullptr, (CudaHandle kernel), (kernel))
WEIR_ONE(cuLaunchGrid, nullptr, (CudaHandle kernel, int width, int height), (kernel, width, height))
WEIR_ONE(cuLaunchGridAsync, stream, (CudaHandle kernel, int width, int height, CudaHandle stream),
         (kernel, width, height, stream))
/// What the graph's nodes allocate is claimed before the gate is passed.
#define WEIR_LAUNCH_GRAPH(name, per_thread)                                                            \
  WEIR_EXPORT CudaResult name(CudaHandle graph, CudaHandle stream) {                                   \
    GraphUse use(graph, stream, per_thread);                                                           \
    if (!use.granted()) return kOutOfMemory;                                                           \
    const Work work({stream, per_thread});                                                             \
    const CudaResult result = Driver<CudaResult(CudaHandle, CudaHandle)>(kCall_##name)(graph, stream); \
    if (result == kSuccess) use.Begun();                                                               \
    return result;                                                                                     \
  }
WEIR_LAUNCH_GRAPH(cuGraphLaunch, false)
WEIR_LAUNCH_GRAPH(cuGraphLaunch_ptsz, true)

WEIR_SYNC(cuMemcpy, (CudaPointer to, CudaPointer from, size_t bytes), (to, from, bytes))
WEIR_SYNC(cuMemcpyPeer,
          (CudaPointer to, CudaHandle to_context, CudaPointer from, CudaHandle from_context, size_t bytes),
          (to, to_context, from, from_context, bytes))
WEIR_SYNC(cuMemcpyHtoD_v2, (CudaPointer to, const void* from, size_t bytes), (to, from, bytes))
WEIR_SYNC(cuMemcpyDtoH_v2, (void* to, CudaPointer from, size_t bytes), (to, from, bytes))
WEIR_SYNC(cuMemcpyDtoD_v2, (CudaPointer to, CudaPointer from, size_t bytes), (to, from, bytes))
WEIR_SYNC(cuMemcpyDtoA_v2, (CudaHandle to, size_t offset, CudaPointer from, size_t bytes), (to, offset, from, bytes))
WEIR_SYNC(cuMemcpyAtoD_v2, (CudaPointer to, CudaHandle from, size_t offset, size_t bytes), (to, from, offset, bytes))
WEIR_SYNC(cuMemcpyHtoA_v2, (CudaHandle to, size_t offset, const void* from, size_t bytes), (to, offset, from, bytes))
WEIR_SYNC(cuMemcpyAtoH_v2, (void* to, CudaHandle from, size_t offset, size_t bytes), (to, from, offset, bytes))
WEIR_SYNC(cuMemcpyAtoA_v2, (CudaHandle to, size_t to_offset, CudaHandle from, size_t offset, size_t bytes),
          (to, to_offset, from, offset, bytes))
WEIR_SYNC(cuMemcpy2D_v2, (const void* copy), (copy))
WEIR_SYNC(cuMemcpy2DUnaligned_v2, (const void* copy), (copy))
WEIR_SYNC(cuMemcpy3D_v2, (const void* copy), (copy))
WEIR_SYNC(cuMemcpy3DPeer, (const void* copy), (copy))

WEIR_ASYNC(cuMemcpyAsync, stream, (CudaPointer to, CudaPointer from, size_t bytes, CudaHandle stream),
           (to, from, bytes, stream))
WEIR_ASYNC(cuMemcpyPeerAsync, stream,
           (CudaPointer to, CudaHandle to_context, CudaPointer from, CudaHandle from_context, size_t bytes,
            CudaHandle stream),
           (to, to_context, from, from_context, bytes, stream))
WEIR_ASYNC(cuMemcpyHtoDAsync_v2, stream, (CudaPointer to, const void* from, size_t bytes, CudaHandle stream),
           (to, from, bytes, stream))
WEIR_ASYNC(cuMemcpyDtoHAsync_v2, stream, (void* to, CudaPointer from, size_t bytes, CudaHandle stream),
           (to, from, bytes, stream))
WEIR_ASYNC(cuMemcpyDtoDAsync_v2, stream, (CudaPointer to, CudaPointer from, size_t bytes, CudaHandle stream),
           (to, from, bytes, stream))
WEIR_ASYNC(cuMemcpyHtoAAsync_v2, stream,
           (CudaHandle to, size_t offset, const void* from, size_t bytes, CudaHandle stream),
           (to, offset, from, bytes, stream))
WEIR_ASYNC(cuMemcpyAtoHAsync_v2, stream, (void* to, CudaHandle from, size_t offset, size_t bytes, CudaHandle stream),
           (to, from, offset, bytes, stream))
WEIR_ASYNC(cuMemcpy2DAsync_v2, stream, (const void* copy, CudaHandle stream), (copy, stream))
WEIR_ASYNC(cuMemcpy3DAsync_v2, stream, (const void* copy, CudaHandle stream), (copy, stream))
WEIR_ASYNC(cuMemcpy3DPeerAsync, stream, (const void* copy, CudaHandle stream), (copy, stream))
WEIR_ASYNC(cuMemcpyBatchAsync, stream,
           (CudaPointer * to, CudaPointer* from, size_t* bytes, size_t count, void* attributes, size_t* indexes,
            size_t attribute_count, size_t* failed, CudaHandle stream),
           (to, from, bytes, count, attributes, indexes, attribute_count, failed, stream))
WEIR_ASYNC(cuMemcpyBatchAsync_v2, stream,
           (CudaPointer * to, CudaPointer* from, size_t* bytes, size_t count, void* attributes, size_t* indexes,
            size_t attribute_count, CudaHandle stream),
           (to, from, bytes, count, attributes, indexes, attribute_count, stream))
WEIR_ASYNC(cuMemcpy3DBatchAsync, stream,
           (size_t count, void* copies, size_t* failed, unsigned long long flags, CudaHandle stream),
           (count, copies, failed, flags, stream))
WEIR_ASYNC(cuMemcpy3DBatchAsync_v2, stream, (size_t count, void* copies, unsigned long long flags, CudaHandle stream),
           (count, copies, flags, stream))

WEIR_SYNC(cuMemsetD8_v2, (CudaPointer to, unsigned char value, size_t count), (to, value, count))
WEIR_SYNC(cuMemsetD16_v2, (CudaPointer to, unsigned short value, size_t count), (to, value, count))
WEIR_SYNC(cuMemsetD32_v2, (CudaPointer to, unsigned value, size_t count), (to, value, count))
WEIR_SYNC(cuMemsetD2D8_v2, (CudaPointer to, size_t pitch, unsigned char value, size_t width, size_t height),
          (to, pitch, value, width, height))
WEIR_SYNC(cuMemsetD2D16_v2, (CudaPointer to, size_t pitch, unsigned short value, size_t width, size_t height),
          (to, pitch, value, width, height))
WEIR_SYNC(cuMemsetD2D32_v2, (CudaPointer to, size_t pitch, unsigned value, size_t width, size_t height),
          (to, pitch, value, width, height))
WEIR_ASYNC(cuMemsetD8Async, stream, (CudaPointer to, unsigned char value, size_t count, CudaHandle stream),
           (to, value, count, stream))
WEIR_ASYNC(cuMemsetD16Async, stream, (CudaPointer to, unsigned short value, size_t count, CudaHandle stream),
           (to, value, count, stream))
WEIR_ASYNC(cuMemsetD32Async, stream, (CudaPointer to, unsigned value, size_t count, CudaHandle stream),
           (to, value, count, stream))
WEIR_ASYNC(cuMemsetD2D8Async, stream,
           (CudaPointer to, size_t pitch, unsigned char value, size_t width, size_t height, CudaHandle stream),
           (to, pitch, value, width, height, stream))
WEIR_ASYNC(cuMemsetD2D16Async, stream,
           (CudaPointer to, size_t pitch, unsigned short value, size_t width, size_t height, CudaHandle stream),
           (to, pitch, value, width, height, stream))
WEIR_ASYNC(cuMemsetD2D32Async, stream,
           (CudaPointer to, size_t pitch, unsigned value, size_t width, size_t height, CudaHandle stream),
           (to, pitch, value, width, height, stream))

#define WEIR_BEGIN_CAPTURE(name, parameters, arguments)                              \
  WEIR_EXPORT CudaResult name parameters {                                           \
    CountCapture();                                                                  \
    const CudaResult result = Driver<CudaResult parameters>(kCall_##name) arguments; \
    if (result != kSuccess) captures.fetch_sub(1, std::memory_order_relaxed);        \
    return result;                                                                   \
  }
WEIR_BEGIN_CAPTURE(cuStreamBeginCapture, (CudaHandle stream), (stream))
WEIR_BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, (CudaHandle stream), (stream))
WEIR_BEGIN_CAPTURE(cuStreamBeginCapture_v2, (CudaHandle stream, int mode), (stream, mode))
WEIR_BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, (CudaHandle stream, int mode), (stream, mode))
WEIR_BEGIN_CAPTURE(cuStreamBeginCaptureToGraph,
                   (CudaHandle stream, CudaHandle graph, const void* dependencies, const void* data, size_t count,
                    int mode),
                   (stream, graph, dependencies, data, count, mode))
WEIR_BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz,
                   (CudaHandle stream, CudaHandle graph, const void* dependencies, const void* data, size_t count,
                    int mode),
                   (stream, graph, dependencies, data, count, mode))

#define WEIR_END_CAPTURE(name)                                                                          \
  WEIR_EXPORT CudaResult name(CudaHandle stream, CudaHandle* graph) {                                   \
    const bool captured = IsCapturing(stream, kCall_##name == kCall_cuStreamEndCapture_ptsz);           \
    const CudaResult result = Driver<CudaResult(CudaHandle, CudaHandle*)>(kCall_##name)(stream, graph); \
    if (captured && !IsCapturing(stream, kCall_##name == kCall_cuStreamEndCapture_ptsz))                \
      captures.fetch_sub(1, std::memory_order_relaxed);                                                 \
    return result;                                                                                      \
  }
WEIR_END_CAPTURE(cuStreamEndCapture)
WEIR_END_CAPTURE(cuStreamEndCapture_ptsz)
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
