// SPDX-License-Identifier: Apache-2.0
// Decode accepts any bytes without crashing, and its result is a valid message: encoded again, it decodes to the same
// message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "proto/attach_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::proto;
  const auto first = Decode(std::as_bytes(std::span(data, size)));
  if (!first) return 0;
  const auto again = Decode(Encode(*first));
  if (!again || !(*again == *first)) std::abort();
  return 0;
}
