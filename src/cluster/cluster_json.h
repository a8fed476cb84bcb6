// SPDX-License-Identifier: Apache-2.0
// Runs, nodes and devices as JSON: as records of the store, in the service API and between members and managers. What
// comes from outside is bounded here by type, and by the engine in its ranges.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/state_store.h"
#include "engine/cluster_engine.h"

namespace weir::cluster {

/// kInvalidArgument for anything but an object.
Result<nlohmann::json> ParseBody(std::string_view text);

/// The body of PUT /v1/runs/ID. kInvalidArgument names the field.
Result<engine::RunRequest> RequestOf(const nlohmann::json& body);
nlohmann::ordered_json JsonOf(const engine::RunRequest& request);

/// As the service API shows it.
nlohmann::ordered_json ShownRun(const engine::ClusterRun& run);
/// {"number", "attempt"}.
nlohmann::ordered_json JsonOf(engine::RunAttempt attempt);
Result<engine::RunAttempt> AttemptOf(const nlohmann::json& body);

/// Of a node's run that has ended: {"state": "done" | "failed", "output", "text", "error", "seconds", "ran_beside"}.
Result<engine::RunResult> ResultOf(const nlohmann::json& body);
nlohmann::ordered_json JsonOf(const engine::RunResult& result);

/// {"module", "blob", "kernels"}, as PUT /v1/modules/NAME is answered.
nlohmann::ordered_json JsonOf(const engine::ClusterModule& module);
Result<std::vector<engine::ModuleKernel>> KernelsOf(const nlohmann::json& list);

/// As GET /v1/devices of a node has them.
Result<std::vector<engine::NodeDevice>> DevicesOf(const nlohmann::json& list);
nlohmann::ordered_json JsonOf(const engine::NodeDevice& device);

/// {"vgpu", "address", "plain", "device", "driver", "room_bytes", "threads"}.
Result<engine::PartsOffer> OfferOf(const nlohmann::json& body);
nlohmann::ordered_json JsonOf(const engine::PartsOffer& offer);

Change ChangeOf(const engine::RecordWrite& write);
/// kProtocol: a record that no manager of this version writes; the cluster's state is not touched then.
Result<engine::ClusterRecords> RecordsOf(const std::vector<Entry>& entries);

}  // namespace weir::cluster
