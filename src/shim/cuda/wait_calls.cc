// SPDX-License-Identifier: Apache-2.0
// The functions in which the program waits for work or asks whether it is done. What is known of the work then is
// charged at once, because the program may make no other call. They pass no gate.
#include "platform/clock.h"
#include "shim/cuda/claims.h"
#include "shim/cuda/contexts.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {
namespace {

/// What a program waits for. `stream` null: all streams of the context.
struct Awaited {
  CudaHandle context = nullptr, stream = nullptr;
  bool is_event = false;  // it is not known in which stream
};

Awaited StreamOf(const StreamKey& key) { return {key.context, key.handle}; }

/// Returns the driver's answer. `awaited`: returns what the call has waited for.
template <typename Call, typename Of>
CudaResult Wait(Call call, Of awaited) {
  if (Hooks() == nullptr) return call();
  const std::int64_t called_ns = platform::NowNs();
  const CudaResult result = call();
  if (result != kSuccess) return result;
  Aside([&] {
    const Awaited of = awaited();
    Reading reading = AfterWaitOf(platform::NowNs() - called_ns, of.stream);
    if (of.is_event) reading.open_batches = false;
    Settle(of.context, reading);
  });
  return result;
}

/// Whether a query of the program that has found work done may have to be charged. Programs ask in loops, so this must
/// be quick.
bool MayCharge() {
  return uncharged.load(std::memory_order_relaxed) > 0 && Hooks() != nullptr && Hooks()->charges() != 0;
}

/// A query does not say which stream the event is in. Therefore the batches of a thread's context are read after a
/// success that follows a failure, and otherwise once in a batch's time.
struct EventQueries {
  bool has_failed = false;
  std::int64_t read_ns = 0;
};
thread_local EventQueries event_queries;

void AfterEventQuery(CudaResult result) {
  if (result == kNotReady) event_queries.has_failed = true;
  if (result != kSuccess || !MayCharge()) return;
  const std::int64_t now_ns = platform::NowNs();
  if (!event_queries.has_failed && now_ns - event_queries.read_ns < core::BatchBounds::kLaunchesLeast.count()) return;
  event_queries = {.has_failed = false, .read_ns = now_ns};
  Aside([] { Settle(OwnerOf(CurrentContext()), {}); });
}

}  // namespace
}  // namespace weir::shim::cuda

using namespace weir::shim::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are the driver's
WEIR_EXPORT CudaResult cuStreamSynchronize(CudaHandle stream) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuStreamSynchronize)(stream); },
              [=] { return StreamOf(KeyOf(stream, false)); });
}

WEIR_EXPORT CudaResult cuStreamSynchronize_ptsz(CudaHandle stream) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuStreamSynchronize_ptsz)(stream); },
              [=] { return StreamOf(KeyOf(stream, true)); });
}

WEIR_EXPORT CudaResult cuCtxSynchronize() {
  return Wait([] { return Driver<CudaResult()>(kCall_cuCtxSynchronize)(); },
              [] { return Awaited{OwnerOf(CurrentContext())}; });
}

WEIR_EXPORT CudaResult cuCtxSynchronize_v2(CudaHandle context) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuCtxSynchronize_v2)(context); },
              [=] { return Awaited{OwnerOf(context != nullptr ? context : CurrentContext())}; });
}

/// The driver does not say of which context the event is.
WEIR_EXPORT CudaResult cuEventSynchronize(CudaHandle event) {
  return Wait([=] { return Driver<CudaResult(CudaHandle)>(kCall_cuEventSynchronize)(event); },
              [] {
                return Awaited{OwnerOf(CurrentContext()), nullptr, true};
              });
}

#define WEIR_QUERY_STREAM(name, per_thread)                                                      \
  WEIR_EXPORT CudaResult name(CudaHandle stream) {                                               \
    const CudaResult result = Driver<CudaResult(CudaHandle)>(kCall_##name)(stream);              \
    if (result == kSuccess && MayCharge()) Aside([=] { SettleAfterQuery(stream, per_thread); }); \
    return result;                                                                               \
  }
WEIR_QUERY_STREAM(cuStreamQuery, false)
WEIR_QUERY_STREAM(cuStreamQuery_ptsz, true)

WEIR_EXPORT CudaResult cuEventQuery(CudaHandle event) {
  const CudaResult result = QueryEvent(event);
  AfterEventQuery(result);
  return result;
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
