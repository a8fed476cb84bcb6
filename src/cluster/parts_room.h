// SPDX-License-Identifier: Apache-2.0
// What a node can offer to others' launches now: the room of a vGPU and the threads that run on the node, of what its
// daemon says of its vGPUs (docs/protocol/control-api.md). Page: docs/partition.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weir::cluster {

/// A node's device, as its driver names it.
struct PartsDevice {
  std::string name, driver;
  Bytes memory{};
};
/// Of a line of `weir-executor --list`; names are made printable. kProtocol: it is none.
Result<PartsDevice> DeviceOfLine(const std::string& line);

struct PartsRoom {
  Bytes room{};               // what the vGPU may have and nobody uses
  std::uint64_t threads = 0;  // work-items of launches that have not ended, of all vGPUs
  friend bool operator==(const PartsRoom&, const PartsRoom&) = default;
};
/// `vgpus`: the reply to GET /v1/vgpus. `memory`: the device's. kNotFound: there is no vGPU of that name.
Result<PartsRoom> RoomOf(const nlohmann::json& vgpus, const std::string& vgpu, Bytes memory);

}  // namespace weir::cluster
