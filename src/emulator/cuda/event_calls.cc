// SPDX-License-Identifier: Apache-2.0
// Functions of the API: events. An event's time is the end of the command before it, on the device's clock; in a stream
// without work it is the time of the call.
#include <algorithm>

#include "emulator/cuda/driver.h"
#include "platform/clock.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

Result Record(Handle handle, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const auto lock = driver.Lock();
    const std::shared_ptr<Event> event = driver.FindEvent(handle);
    if (event == nullptr || event->context != OwnerOf(stream->context)) return kInvalidHandle;
    if (Driver::LegacyIsUnknown(*stream)) return driver.RefuseIfCapturing(*stream);
    if (stream->capture && stream->capture->invalid) return kCaptureInvalidated;
    event->recorded = true;
    event->captured_in = stream->capture ? stream.get() : nullptr;
    event->recorded_at = weir::platform::Now();
    event->moment = stream->capture ? Moment{} : Driver::Front(*stream);
    return kSuccess;
  });
}

/// Runs the body with the lock and an event, if the thread may ask about events now.
template <typename Body>
Result AskEvent(Handle handle, Body body) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    auto lock = driver.Lock();
    const std::shared_ptr<Event> event = driver.FindEvent(handle);
    if (event == nullptr) return kInvalidHandle;
    if (event->captured_in != nullptr) return kCapturedEvent;
    if (const Result error = driver.RefuseWhileCapturing(); error != kSuccess) return error;
    return body(driver, lock, *context, *event);
  });
}

weir::Instant TimeOf(const Event& event) {
  weir::Instant time = event.recorded_at;
  for (const auto& one : event.moment) time = std::max(time, one->ended);
  return time;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuEventCreate(Handle* handle, unsigned flags) {
  constexpr unsigned kDisableTiming = 2;
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr) return kInvalidValue;
    auto event = std::make_shared<Event>();
    event->context = OwnerOf(context);
    event->timed = (flags & kDisableTiming) == 0;
    const auto lock = driver.Lock();
    *handle = driver.events.Add(std::move(event));
    return *handle == nullptr ? kOutOfMemory : kSuccess;
  });
}

WEIR_EXPORT Result cuEventDestroy_v2(Handle handle) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    const auto lock = driver.Lock();
    return driver.events.Remove(handle) == nullptr ? kInvalidHandle : kSuccess;
  });
}

WEIR_EXPORT Result cuEventRecord(Handle event, Handle stream) { return Record(event, {stream, false}); }
WEIR_EXPORT Result cuEventRecord_ptsz(Handle event, Handle stream) { return Record(event, {stream, true}); }

WEIR_EXPORT Result cuEventQuery(Handle handle) {
  return AskEvent(handle, [](Driver&, auto&, const Context&, const Event& event) {
    return Driver::Complete(event.moment) ? kSuccess : kNotReady;
  });
}

WEIR_EXPORT Result cuEventSynchronize(Handle handle) {
  return AskEvent(handle, [](Driver& driver, auto& lock, const Context& context, const Event& event) {
    const Moment moment = event.moment;
    return driver.Wait(lock, context, moment);
  });
}

WEIR_EXPORT Result cuEventElapsedTime(float* ms, Handle start, Handle end) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    constexpr double kNsPerMs = 1e6;
    if (ms == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<Event> from = driver.FindEvent(start), until = driver.FindEvent(end);
    for (const auto& event : {from, until}) {
      if (event == nullptr || !event->timed || !event->recorded) return kInvalidHandle;
      if (event->captured_in != nullptr) return kCapturedEvent;
    }
    if (!Driver::Complete(from->moment) || !Driver::Complete(until->moment)) return kNotReady;
    *ms = static_cast<float>(static_cast<double>((TimeOf(*until) - TimeOf(*from)).count()) / kNsPerMs);
    return kSuccess;
  });
}
// NOLINTEND(readability-identifier-naming)
