// SPDX-License-Identifier: Apache-2.0
// OpenCL devices that this machine's drivers offer. Drivers are opened in a process of their own: one may crash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::cli {

struct OpenClDevice {
  std::string library, vendor, name;
  std::string uuid{}, pci{};  // empty: the driver does not tell
  std::uint64_t number = 0, compute_units = 0, memory_bytes = 0;
};

/// Runs `executor --list`. kUnavailable when there is no such program, or no driver has a device.
Result<std::vector<OpenClDevice>> ListOpenClDevices(const std::string& executor);

/// One line of that list: fields behind tabs. Lines that are none are left out.
std::vector<OpenClDevice> ParseOpenClDevices(const std::string& text);

}  // namespace weir::cli
