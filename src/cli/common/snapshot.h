// SPDX-License-Identifier: Apache-2.0
// The state of the node at one moment.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/common/control_client.h"
#include "cli/common/memory_view.h"
#include "cli/common/views.h"

namespace weir::cli {

struct Snapshot {
  std::vector<DeviceView> devices;
  std::vector<VgpuView> vgpus;
  std::vector<MemoryMapView> memory{};  // of the devices whose memory is elastic
};
Result<Snapshot> TakeSnapshot(const ControlClient& client);

/// The device named by --device, or the node's only device. kInvalidArgument lists the devices if there are several.
Result<std::string> DeviceMeant(const ControlClient& client, const std::string& flag);

}  // namespace weir::cli
