// SPDX-License-Identifier: Apache-2.0
// Runs, nodes and devices as JSON: in the store's records, in the service API, and between members and managers. Input
// is checked for types here; the engine checks the ranges.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/state_store.h"
#include "engine/cluster_engine.h"

namespace weir::cluster {

/// Parses the body of PUT /v1/runs/ID. kInvalidArgument names the wrong field.
Result<engine::RunRequest> RequestOf(const nlohmann::json& body);
nlohmann::ordered_json JsonOf(const engine::RunRequest& request);

/// A run in the form of the service API.
nlohmann::ordered_json ShownRun(const engine::ClusterRun& run);
/// {"number", "attempt"}.
nlohmann::ordered_json JsonOf(engine::RunAttempt attempt);
Result<engine::RunAttempt> AttemptOf(const nlohmann::json& body);

/// The result of a run that a node has ended: {"state": "done" | "failed", "output", "text", "error", "seconds",
/// "ran_beside"}.
Result<engine::RunResult> ResultOf(const nlohmann::json& body);
nlohmann::ordered_json JsonOf(const engine::RunResult& result);

/// {"module", "blob", "kernels"}, the reply to PUT /v1/modules/NAME.
nlohmann::ordered_json JsonOf(const engine::ClusterModule& module);
Result<std::vector<engine::ModuleKernel>> KernelsOf(const nlohmann::json& list);

/// The devices in the form of a node's GET /v1/devices.
Result<std::vector<engine::NodeDevice>> DevicesOf(const nlohmann::json& list);
nlohmann::ordered_json JsonOf(const engine::NodeDevice& device);

/// {"vgpu", "address", "plain", "device", "driver", "room_bytes", "threads"}.
Result<engine::PartsOffer> OfferOf(const nlohmann::json& body);
nlohmann::ordered_json JsonOf(const engine::PartsOffer& offer);

Change ChangeOf(const engine::RecordWrite& write);
/// kProtocol: no manager of this version writes such a record; the cluster's state is then left untouched.
Result<engine::ClusterRecords> RecordsOf(const std::vector<Entry>& entries);

}  // namespace weir::cluster
