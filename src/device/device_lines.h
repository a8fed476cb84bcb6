// SPDX-License-Identifier: Apache-2.0
// Parsers of the lines that Weir's helper programs print about devices.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weir::device {

/// A GPU as weir-gpu-memory prints it: UUID, PCI address and model, separated by tabs. Fields may be empty.
struct GpuIdentity {
  std::string uuid, pci, model;
};
Result<GpuIdentity> ParseGpuIdentity(const std::string& line);

/// A device as weir-emulated-gpu prints it: model, UUID, PCI address and bytes of memory, separated by tabs.
struct EmulatedIdentity {
  std::string model, uuid, pci;
  std::uint64_t memory_bytes = 0;
};
Result<EmulatedIdentity> ParseEmulatedIdentity(const std::string& line);

}  // namespace weir::device
