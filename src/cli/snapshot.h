// SPDX-License-Identifier: Apache-2.0
// The node at one moment.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/control_client.h"
#include "cli/views.h"

namespace weir::cli {

struct Snapshot {
  std::vector<DeviceView> devices;
  std::vector<VgpuView> vgpus;
};
Result<Snapshot> TakeSnapshot(const ControlClient& client);

}  // namespace weir::cli
