// SPDX-License-Identifier: Apache-2.0
#include "device/device_lines.h"

#include <charconv>
#include <vector>

#include "base/split.h"

namespace weir::device {

Result<EmulatedIdentity> ParseEmulatedIdentity(const std::string& line) {
  const std::vector<std::string> fields = SplitList(line, '\t');
  EmulatedIdentity identity;
  if (fields.size() == 4) {
    identity = {.model = fields[0], .uuid = fields[1], .pci = fields[2]};
    const char* const end = fields[3].data() + fields[3].size();
    if (const auto [stopped, error] = std::from_chars(fields[3].data(), end, identity.memory_bytes);
        error == std::errc() && stopped == end && !identity.uuid.empty())
      return identity;
  }
  return Fail(Errc::kProtocol, "weir-emulated-gpu printed '" + line + "' about a device");
}

Result<GpuIdentity> ParseGpuIdentity(const std::string& line) {
  const std::vector<std::string> fields = SplitList(line, '\t');
  if (fields.size() != 3) return Fail(Errc::kProtocol, "weir-gpu-memory printed '" + line + "' about the GPU");
  return GpuIdentity{.uuid = fields[0], .pci = fields[1], .model = fields[2]};
}

}  // namespace weir::device
