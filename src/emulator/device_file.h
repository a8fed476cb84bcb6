// SPDX-License-Identifier: Apache-2.0
// Reads the description of emulated devices (docs/emulated-gpu.md, "Device description files").
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/device/device_config.h"
#include "core/device/device_fault.h"

namespace weir::emulator {

struct DeviceDescription {
  std::string name;
  std::string uuid;  // as 0f0f0f0f-1111-2222-3333-444444444444
  std::string pci;   // as 0000:01:00.0
  double refresh = 60;
  core::DeviceConfig model;
  std::vector<core::DeviceFault> faults;
};

/// The cost of a frame of a program. The first entry whose pattern matches the program's name applies.
struct ProgramCost {
  std::string name;               // may contain * and ?
  std::optional<Duration> frame;  // empty: the CPU time of drawing, times `factor`
  double factor = 1;
  bool drawn = true;
};

/// The cost of a launch of a kernel. The first entry whose pattern matches the kernel's name applies.
struct KernelCost {
  std::string name;               // may contain * and ?
  std::optional<Duration> fixed;  // empty: the CPU time of computing it, times the factor of [kernels]
  double per_item_ns = 0;         // for each work-item, in addition to `fixed`
  std::uint32_t units = 0;        // compute units that a launch can use; 0: all of the device
  bool computed = true;
};

struct Emulated {
  static constexpr std::size_t kKernelsMax = 200;  // so that they fit into a Welcome
  static constexpr std::size_t kFaultsMax = 64;    // so that they fit into the accounts

  std::vector<DeviceDescription> devices;
  std::vector<ProgramCost> programs;  // the last matches every program
  std::vector<KernelCost> kernels;
  double kernel_factor = 1;  // of kernels whose cost is measured
};

/// kInvalidArgument: "FILE:LINE:COLUMN: reason".
Result<Emulated> ReadDevices(std::string_view text, const std::string& file);
/// A path, or the name of a file in one of `folders` without ".toml".
Result<Emulated> LoadDevices(const std::string& name, const std::vector<std::string>& folders);

/// The name of a kind of fault in a description: "lost".
std::string_view NameOf(core::DeviceFault::Kind kind);

/// The folders of the descriptions that come with Weir: beside an installed program, or in this build's source tree.
std::vector<std::string> DescriptionFolders(const std::filesystem::path& program);

/// Whether a name matches a pattern in which * stands for any text and ? for one character.
bool Matches(std::string_view pattern, std::string_view name);
/// The entry that applies to `program`. Requires that `programs` ends with an entry that matches every program.
const ProgramCost& CostOf(const std::vector<ProgramCost>& programs, std::string_view program);

}  // namespace weir::emulator
