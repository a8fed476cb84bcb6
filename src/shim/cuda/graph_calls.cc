// SPDX-License-Identifier: Apache-2.0
// The functions that make and end executable graphs, and those that say when their memory is reserved. Launches are in
// calls.cc.
#include "shim/cuda/graph_memory.h"

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

constexpr unsigned long long kUpload = 2;  // CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD

/// The first members of CUDA_GRAPH_INSTANTIATE_PARAMS.
struct InstantiateParameters {
  unsigned long long flags;
  CudaHandle upload_stream;
};

template <typename Call>
CudaResult Instantiate(const CudaHandle* executable, CudaHandle graph, Call call) {
  const GraphNeeds needs = NeedsOf(graph);
  const CudaResult result = call();
  if (result == kSuccess) NoteExecutable(*executable, needs);
  return result;
}

template <typename Call>
CudaResult InstantiateWith(const CudaHandle* executable, CudaHandle graph, const InstantiateParameters* parameters,
                           bool per_thread, Call call) {
  if (parameters == nullptr || (parameters->flags & kUpload) == 0) return Instantiate(executable, graph, call);
  const GraphNeeds needs = NeedsOf(graph);
  GraphUse use(needs, parameters->upload_stream, per_thread);
  if (!use.granted()) return kOutOfMemory;
  const CudaResult result = call();
  if (result != kSuccess) return result;
  use.Begun();
  NoteExecutable(*executable, needs);
  return result;
}

}  // namespace

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's
#define WEIR_INSTANTIATE(name, parameters, arguments)                                                             \
  WEIR_EXPORT CudaResult name parameters {                                                                        \
    return Instantiate(executable, graph, [&] { return Driver<CudaResult parameters>(kCall_##name) arguments; }); \
  }
WEIR_INSTANTIATE(cuGraphInstantiate,
                 (CudaHandle * executable, CudaHandle graph, CudaHandle* error_node, char* log, std::size_t room),
                 (executable, graph, error_node, log, room))
WEIR_INSTANTIATE(cuGraphInstantiate_v2,
                 (CudaHandle * executable, CudaHandle graph, CudaHandle* error_node, char* log, std::size_t room),
                 (executable, graph, error_node, log, room))
WEIR_INSTANTIATE(cuGraphInstantiateWithFlags, (CudaHandle * executable, CudaHandle graph, unsigned long long flags),
                 (executable, graph, flags))

#define WEIR_INSTANTIATE_WITH(name, per_thread)                                                                        \
  WEIR_EXPORT CudaResult name(CudaHandle* executable, CudaHandle graph, void* parameters) {                            \
    return InstantiateWith(executable, graph, static_cast<const InstantiateParameters*>(parameters), per_thread, [&] { \
      return Driver<CudaResult(CudaHandle*, CudaHandle, void*)>(kCall_##name)(executable, graph, parameters);          \
    });                                                                                                                \
  }
WEIR_INSTANTIATE_WITH(cuGraphInstantiateWithParams, false)
WEIR_INSTANTIATE_WITH(cuGraphInstantiateWithParams_ptsz, true)

#define WEIR_UPLOAD(name, per_thread)                                                                       \
  WEIR_EXPORT CudaResult name(CudaHandle executable, CudaHandle stream) {                                   \
    GraphUse use(executable, stream, per_thread);                                                           \
    if (!use.granted()) return kOutOfMemory;                                                                \
    const CudaResult result = Driver<CudaResult(CudaHandle, CudaHandle)>(kCall_##name)(executable, stream); \
    if (result == kSuccess) use.Begun();                                                                    \
    return result;                                                                                          \
  }
WEIR_UPLOAD(cuGraphUpload, false)
WEIR_UPLOAD(cuGraphUpload_ptsz, true)

WEIR_EXPORT CudaResult cuGraphExecDestroy(CudaHandle executable) {
  const GraphNeeds needs = ForgetExecutable(executable);
  const CudaResult result = Driver<CudaResult(CudaHandle)>(kCall_cuGraphExecDestroy)(executable);
  if (result != kSuccess) NoteExecutable(executable, needs);
  for (const GraphNeeds::One& one : needs.each) CountGraphMemory(one.device);
  return result;
}

WEIR_EXPORT CudaResult cuDeviceGraphMemTrim(int device) {
  const CudaResult result = Driver<CudaResult(int)>(kCall_cuDeviceGraphMemTrim)(device);
  if (result == kSuccess) CountGraphMemory(device);
  return result;
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
