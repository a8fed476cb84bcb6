// SPDX-License-Identifier: Apache-2.0
// The OpenCL devices of this machine's drivers. A separate process opens the drivers, because one may crash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::device {

struct OpenClDevice {
  std::string library, vendor, name;
  std::string uuid{}, pci{};  // empty: the driver does not report it
  std::uint64_t number = 0, compute_units = 0, memory_bytes = 0;
};

/// Runs `executor --list`. kUnavailable: the program is missing, or no driver has a device.
Result<std::vector<OpenClDevice>> ListOpenClDevices(const std::string& executor);

/// Parses the list's lines: fields separated by tabs. Malformed lines are skipped.
std::vector<OpenClDevice> ParseOpenClDevices(const std::string& text);

}  // namespace weir::device
