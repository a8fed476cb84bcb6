// SPDX-License-Identifier: Apache-2.0
// What `weir top` and the demo's live view show.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/control_client.h"
#include "cli/views.h"

namespace weir::cli {

/// The node at one moment.
struct Snapshot {
  std::vector<DeviceView> devices;
  std::vector<VgpuView> vgpus;
};
Result<Snapshot> TakeSnapshot(const ControlClient& client);

/// A line for each device, then a table of vGPUs.
std::string RenderTop(const Snapshot& snapshot, bool color);

}  // namespace weir::cli
