// SPDX-License-Identifier: Apache-2.0
// Both decoders accept any bytes without crashing. A decoded frame is unchanged after it was encoded and decoded again.
#include <cstdlib>

#include "modules/module_frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::modules;
  const auto packet = std::as_bytes(std::span(data, size));
  if (const auto frame = DecodeFrame(packet)) {
    const auto again = DecodeFrame(EncodeFrame(*frame));
    if (!again || *again != *frame) std::abort();
  }
  if (const auto order = DecodeOrder(packet)) {
    const auto again = DecodeOrder(EncodeOrder(*order));
    if (!again || *again != *order) std::abort();
  }
  return 0;
}
