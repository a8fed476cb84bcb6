// SPDX-License-Identifier: Apache-2.0
// What the holder of a token may ask a manager for (docs/cluster.md, "Rights by role"). Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/cluster_events.h"
#include "http/message.h"

namespace weir::cluster {

/// kPermissionDenied: the message names the role and the request. Needs only the request's head.
Status MayAsk(const http::Request& head);

/// Whether the holder sees this run and may remove it: a tenant has its own runs only.
bool MaySee(const http::Holder& holder, const engine::ClusterRun& run);
/// The tenant of a run that this holder submits; empty: it belongs to no tenant.
std::string TenantOf(const http::Holder& holder);

/// Whether the audit log has this request: a change, or a request that was refused.
bool IsAudited(const http::Request& head, unsigned status);

}  // namespace weir::cluster
