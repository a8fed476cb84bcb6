// SPDX-License-Identifier: Apache-2.0
// Functions of the API: streams and captures. The variants whose names end in _ptsz take a null stream as the
// thread's default stream.
#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

Result Query(Where where) {
  return CallInStream(where, [](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const auto lock = driver.Lock();
    if (const Result error = driver.RefuseIfCapturing(*stream); error != kSuccess) return error;
    return Driver::Complete(Driver::Front(*stream)) ? kSuccess : kNotReady;
  });
}

Result Synchronize(Where where) {
  return CallInStream(where, [](Driver& driver, const std::shared_ptr<Stream>& stream) {
    auto lock = driver.Lock();
    if (const Result error = driver.RefuseIfCapturing(*stream); error != kSuccess) return error;
    return driver.Wait(lock, *stream->context, Driver::Front(*stream));
  });
}

Result WaitEvent(Where where, Handle handle) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const auto lock = driver.Lock();
    const std::shared_ptr<Event> event = driver.FindEvent(handle);
    if (event == nullptr) return kInvalidHandle;
    if (event->captured_in != nullptr || stream->capture) {
      // A wait within the stream that captures changes nothing: its graph is in order.
      if (stream->capture && event->captured_in == stream.get()) return kSuccess;
      if (stream->capture) stream->capture->invalid = true;
      if (const auto other = driver.streams.Find(event->captured_in); other != nullptr && other->capture)
        other->capture->invalid = true;
      return kCaptureUnsupported;
    }
    if (const Result error = driver.RefuseIfCapturing(*stream); error != kSuccess) return error;
    std::erase_if(stream->last, [](const auto& one) { return one->complete; });
    for (const auto& one : event->moment)
      if (!one->complete) stream->last.push_back(one);
    return kSuccess;
  });
}

Result IsCapturing(Where where, int* status) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (status == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    if (Driver::LegacyIsUnknown(*stream)) return kCaptureImplicit;
    *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
    return kSuccess;
  });
}

Result BeginCapture(Where where, int mode) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (mode < kGlobal || mode > kRelaxed) return kInvalidValue;
    const auto lock = driver.Lock();
    if (stream == stream->context->legacy) return kCaptureUnsupported;
    if (stream->capture) return kIllegalState;
    stream->capture = {.mode = mode, .owner = std::this_thread::get_id()};
    return kSuccess;
  });
}

Result EndCapture(Where where, Handle* graph) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (graph == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    if (!stream->capture) return kIllegalState;
    if (stream->capture->mode != kRelaxed && stream->capture->owner != std::this_thread::get_id())
      return kCaptureWrongThread;
    const Capture capture = std::move(*stream->capture);
    stream->capture.reset();
    *graph = capture.invalid ? nullptr : driver.graphs.Add(capture.graph);
    if (capture.invalid) return kCaptureInvalidated;
    return *graph == nullptr ? kOutOfMemory : kSuccess;
  });
}

Result ContextOf(Where where, Handle* context) {
  return CallInStream(where, [&](Driver&, const std::shared_ptr<Stream>& stream) {
    if (context == nullptr) return kInvalidValue;
    *context = stream->context.get();
    return kSuccess;
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are NVIDIA's
#define WEIR_BOTH(name, parameters, per_thread_call, legacy_call) \
  WEIR_EXPORT Result name parameters { return legacy_call; }      \
  WEIR_EXPORT Result name##_ptsz parameters { return per_thread_call; }

WEIR_BOTH(cuStreamQuery, (Handle stream), Query({stream, true}), Query({stream, false}))
WEIR_BOTH(cuStreamSynchronize, (Handle stream), Synchronize({stream, true}), Synchronize({stream, false}))
WEIR_BOTH(cuStreamWaitEvent, (Handle stream, Handle event, unsigned /*flags*/), WaitEvent({stream, true}, event),
          WaitEvent({stream, false}, event))
WEIR_BOTH(cuStreamIsCapturing, (Handle stream, int* status), IsCapturing({stream, true}, status),
          IsCapturing({stream, false}, status))
WEIR_BOTH(cuStreamBeginCapture_v2, (Handle stream, int mode), BeginCapture({stream, true}, mode),
          BeginCapture({stream, false}, mode))
WEIR_BOTH(cuStreamEndCapture, (Handle stream, Handle* graph), EndCapture({stream, true}, graph),
          EndCapture({stream, false}, graph))
WEIR_BOTH(cuStreamGetCtx, (Handle stream, Handle* context), ContextOf({stream, true}, context),
          ContextOf({stream, false}, context))
#undef WEIR_BOTH

WEIR_EXPORT Result cuStreamCreate(Handle* handle, unsigned flags) {
  constexpr unsigned kNonBlocking = 1;
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr || flags > kNonBlocking) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<Stream> stream = driver.AddStream(context, flags != kNonBlocking);
    if (stream == nullptr) return kOutOfMemory;
    *handle = driver.streams.Add(stream);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuStreamDestroy_v2(Handle handle) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto lock = driver.Lock();
    const std::shared_ptr<Stream> stream = driver.streams.Find(handle);
    if (stream == nullptr) return kInvalidHandle;
    driver.RemoveStream(stream);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return Call([&](Driver&) {
    if (mode == nullptr || *mode < kGlobal || *mode > kRelaxed) return kInvalidValue;
    std::swap(*mode, ThreadCaptureMode());
    return kSuccess;
  });
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
