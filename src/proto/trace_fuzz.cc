// SPDX-License-Identifier: Apache-2.0
// DecodeTrace accepts any bytes without crashing, and its result is a valid trace: encoded again, it decodes to the
// same trace, and the end of every frame is a representable time.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "proto/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::proto;
  const auto first = DecodeTrace(std::as_bytes(std::span(data, size)));
  if (!first) return 0;
  for (const TraceFrame& frame : first->frames) {
    const bool possible = frame.begin_ns >= 0 && frame.EndNs() >= frame.begin_ns;
    if (!possible || frame.process >= first->processes.size()) std::abort();
  }
  const auto again = DecodeTrace(EncodeTrace(*first));
  if (!again || !(*again == *first)) std::abort();
  return 0;
}
