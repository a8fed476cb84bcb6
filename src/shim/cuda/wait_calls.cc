// SPDX-License-Identifier: Apache-2.0
// The functions in which the program waits for work. What is known of the work then is charged at once, because the
// program may make no other call. They pass no gate.
#include "platform/clock.h"
#include "shim/cuda/claims.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {
namespace {

/// Returns the driver's answer. `context`: returns that of the work.
template <typename Call, typename Context>
CudaResult Wait(Call call, Context context) {
  if (Hooks() == nullptr) return call();
  const std::int64_t called_ns = platform::NowNs();
  const CudaResult result = call();
  if (result == kSuccess) Aside([&] { Settle(context(), AfterWaitOf(platform::NowNs() - called_ns)); });
  return result;
}

}  // namespace
}  // namespace weir::shim::cuda

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's
WEIR_EXPORT CudaResult cuStreamSynchronize(CudaHandle stream) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuStreamSynchronize)(stream); },
              [=] { return KeyOf(stream, false).context; });
}

WEIR_EXPORT CudaResult cuStreamSynchronize_ptsz(CudaHandle stream) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuStreamSynchronize_ptsz)(stream); },
              [=] { return KeyOf(stream, true).context; });
}

WEIR_EXPORT CudaResult cuCtxSynchronize() {
  return Wait([] { return Driver<CudaResult()>(kCall_cuCtxSynchronize)(); }, [] { return OwnerOf(CurrentContext()); });
}

WEIR_EXPORT CudaResult cuCtxSynchronize_v2(CudaHandle context) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuCtxSynchronize_v2)(context); },
              [=] { return OwnerOf(context != nullptr ? context : CurrentContext()); });
}

/// The driver does not say of which context the event is.
WEIR_EXPORT CudaResult cuEventSynchronize(CudaHandle event) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuEventSynchronize)(event); },
              [] { return OwnerOf(CurrentContext()); });
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
