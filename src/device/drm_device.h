// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine that have a DRM driver of Linux, as /sys/class/drm lists them.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::device {

struct DrmDevice {
  std::string pci;     // as 0000:03:00.0
  std::string driver;  // such as "amdgpu"
  std::string model;   // driver, vendor and device, as "amdgpu 1002:73bf"
};

/// `wanted`: an index (0: the first render node), the name of a render node ("renderD128") or a PCI address. `folder`:
/// /sys/class/drm. kNotFound lists the existing GPUs.
Result<DrmDevice> FindDrmDevice(const std::string& wanted, const std::string& folder);

}  // namespace weir::device
