// SPDX-License-Identifier: Apache-2.0
// What a node can offer for parts of other nodes' launches: the free memory of a vGPU and the threads that run on the
// node. Computed from the daemon's description of its vGPUs (docs/protocol/control-api.md). Page: docs/partition.md
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace weir::cluster {

/// A node's device with the name that its driver gives it.
struct PartsDevice {
  std::string name, driver;
  Bytes memory{};
};
/// Parses a line of `weir-executor --list`; names are made printable. kProtocol: the line is malformed.
Result<PartsDevice> DeviceOfLine(const std::string& line);

struct PartsRoom {
  Bytes room{};               // memory that the vGPU may use and that is free
  std::uint64_t threads = 0;  // work-items of the unfinished launches of all vGPUs
  friend bool operator==(const PartsRoom&, const PartsRoom&) = default;
};
/// `vgpus`: the reply to GET /v1/vgpus. `memory`: the size of the device's memory. kNotFound: no vGPU has this name.
Result<PartsRoom> RoomOf(const nlohmann::json& vgpus, const std::string& vgpu, Bytes memory);

}  // namespace weir::cluster
