// SPDX-License-Identifier: Apache-2.0
// The devices of `weir serve --device`.
//
//   embedded      this machine's CPUs, with Mesa's software renderer and PoCL
//   nvidia:GPU    an NVIDIA GPU, by index, UUID or PCI address
//   drm:GPU       a GPU with a DRM driver of Linux (amdgpu, i915), by index, render node or PCI address
//   emulated:FILE the emulated GPUs of a description: a file, or the name of one of Weir's (docs/emulated-gpu.md)
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace weir::device {

/// Where devices are looked for.
struct Sources {
  std::string memory_program;    // weir-gpu-memory; empty: it is not installed
  std::string account_program;   // weir-gpu-account
  std::string emulator_program;  // weir-emulated-gpu
  std::string emulated_drivers;  // the folder of the emulated GPUs' drivers
  std::string nvml_library;      // empty: the system's
  std::string run_dir;           // for the emulators' sockets
  std::string drm = "/sys/class/drm";
};

/// Adds the devices that `wanted` names. kInvalidArgument: a device is unknown or named twice. kNotFound, kUnavailable:
/// the GPU's driver does not have it, the description can't be read, or a program of Weir is missing.
Status AddDevices(const std::vector<std::string>& wanted, const Sources& sources, Devices& devices);

}  // namespace weir::device
