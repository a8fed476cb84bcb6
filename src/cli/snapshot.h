// SPDX-License-Identifier: Apache-2.0
// The node at one moment.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/control_client.h"
#include "cli/memory_view.h"
#include "cli/views.h"

namespace weir::cli {

struct Snapshot {
  std::vector<DeviceView> devices;
  std::vector<VgpuView> vgpus;
  std::vector<MemoryMapView> memory{};  // of the devices where it is elastic
};
Result<Snapshot> TakeSnapshot(const ControlClient& client);

/// `flag`, what --device said; else the node's only device. kInvalidArgument lists them where there are several.
Result<std::string> DeviceMeant(const ControlClient& client, const std::string& flag);

}  // namespace weir::cli
