// SPDX-License-Identifier: Apache-2.0
// The devices of `weir serve --device`.
//
//   embedded      this machine's CPUs, with Mesa's software renderer and PoCL
//   nvidia:GPU    an NVIDIA GPU, by index, UUID or PCI address
//   drm:GPU       a GPU with a DRM driver of Linux (amdgpu, i915), by index, render node or PCI address
//   emulated:FILE the emulated GPUs that a file describes, or that one of Weir's descriptions does
//   (docs/emulated-gpu.md)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/serve.h"

namespace weir::cli {

/// Adds the devices that `wanted` names to `options`. `self`: this program; `nvml_library` empty: the system's.
/// kInvalidArgument: a device is unknown or named twice. kNotFound, kUnavailable: NVIDIA's driver does not have it, the
/// description can't be read, or a program of Weir is missing. `options.run_dir` is set.
Status AddDevices(const std::vector<std::string>& wanted, const std::filesystem::path& self,
                  const std::string& nvml_library, daemon::ServeOptions& options);

}  // namespace weir::cli
