// SPDX-License-Identifier: Apache-2.0
// The state of a node as JSON, as the control API reports it (docs/protocol/control-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "daemon/node.h"

namespace weir::daemon {

nlohmann::ordered_json ToJson(const VgpuReport& vgpu);
nlohmann::ordered_json ToJson(const engine::DeviceStatus& device);
nlohmann::ordered_json ToJson(std::span<const core::PolicyParam> params);
nlohmann::ordered_json MemoryJson(const engine::MemoryStatus& memory);
/// Per slot: the number of sharers, the owner's vGPU id (0: no owner), and whether the slot is being revoked.
nlohmann::ordered_json MapJson(const engine::MemoryMap& map);
nlohmann::ordered_json PoliciesJson();

}  // namespace weir::daemon
