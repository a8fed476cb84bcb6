// SPDX-License-Identifier: Apache-2.0
// A line that a helper program prints about a device. Any bytes are accepted without crashing, and the parsed values
// are fields of the line. The first byte selects the helper.
#include <cstdint>
#include <cstdlib>

#include "device/device_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::device;
  if (size == 0) return 0;
  const std::string line(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    const auto identity = ParseGpuIdentity(line);
    if (identity && identity->uuid + "\t" + identity->pci + "\t" + identity->model != line) std::abort();
    return 0;
  }
  const auto identity = ParseEmulatedIdentity(line);
  if (!identity) return 0;
  const std::string head = identity->model + "\t" + identity->uuid + "\t" + identity->pci + "\t";
  if (identity->uuid.empty() || !line.starts_with(head)) std::abort();
  const auto again = ParseEmulatedIdentity(head + std::to_string(identity->memory_bytes));
  if (!again || again->memory_bytes != identity->memory_bytes) std::abort();
  return 0;
}
