// SPDX-License-Identifier: Apache-2.0
// What Weir's helper programs print about devices, a line each.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weir::cli {

/// What weir-gpu-memory prints about a GPU: UUID, PCI address and model, behind tabs. Fields may be empty.
struct GpuIdentity {
  std::string uuid, pci, model;
};
Result<GpuIdentity> ParseGpuIdentity(const std::string& line);

/// A line that weir-emulated-gpu prints about a device: model, UUID, PCI address and bytes of memory, behind tabs.
struct EmulatedIdentity {
  std::string model, uuid, pci;
  std::uint64_t memory_bytes = 0;
};
Result<EmulatedIdentity> ParseEmulatedIdentity(const std::string& line);

}  // namespace weir::cli
