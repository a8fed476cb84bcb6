// SPDX-License-Identifier: Apache-2.0
// A decoded message is encoded to the same bytes.
#include <cstdint>
#include <cstdlib>

#include "proto/emulator_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::proto::emulator;
  const std::span<const std::byte> packet(reinterpret_cast<const std::byte*>(data), size);
  const auto message = Decode(packet);
  if (!message) return 0;
  if (const auto again = Encode(*message); !std::equal(again.begin(), again.end(), packet.begin(), packet.end()))
    std::abort();
  return 0;
}
