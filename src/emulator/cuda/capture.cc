// SPDX-License-Identifier: Apache-2.0
// What may not be called while a stream captures, as the CUDA Driver API Reference says of CUstreamCaptureMode.
#include "emulator/cuda/driver.h"

namespace weir::emulator::cuda {

Result Driver::RefuseWhileCapturing() {
  const int mine = ThreadCaptureMode();
  if (mine == kRelaxed) return kSuccess;
  bool refused = false;
  contexts.ForEach([&](const Context& context) {
    for (const auto& stream : context.streams) {
      if (!stream->capture) continue;
      Capture& capture = *stream->capture;
      const bool own = capture.owner == std::this_thread::get_id() && capture.mode != kRelaxed;
      if (!own && (mine != kGlobal || capture.mode != kGlobal)) continue;
      capture.invalid = true;
      refused = true;
    }
  });
  return refused ? kCaptureUnsupported : kSuccess;
}

bool Driver::LegacyIsUnknown(const Stream& stream) {
  const Context& context = *stream.context;
  if (&stream != context.legacy.get()) return false;
  for (const auto& other : context.streams)
    if (other->blocking && other->capture) return true;
  return false;
}

void Driver::Invalidate(Context& context) {
  for (const auto& stream : context.streams)
    if (stream->capture) stream->capture->invalid = true;
}

Result Driver::RefuseIfCapturing(Stream& stream) {
  if (LegacyIsUnknown(stream)) {
    Invalidate(*stream.context);
    return kCaptureImplicit;
  }
  if (!stream.capture) return kSuccess;
  stream.capture->invalid = true;
  return kCaptureUnsupported;
}

}  // namespace weir::emulator::cuda
