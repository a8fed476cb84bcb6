// SPDX-License-Identifier: Apache-2.0
// The state in etcd, through its v3 protocol. Every call has its own deadline and tries the next member when one does
// not answer; otherwise a hanging member would block a manager for seconds.
#pragma once

#include <memory>

#include "cluster/state_store.h"

namespace weir::cluster {

/// `members`: at least one HOST:PORT. None needs to be reachable yet.
std::unique_ptr<StateStore> MakeEtcdStore(const std::vector<std::string>& members);

}  // namespace weir::cluster
