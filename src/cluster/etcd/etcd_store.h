// SPDX-License-Identifier: Apache-2.0
// The state in etcd, by its v3 protocol. Every call has a deadline of its own and goes to the next member when one does
// not answer; one that hangs would otherwise hold a manager for seconds.
#pragma once

#include <memory>

#include "cluster/state_store.h"

namespace weir::cluster {

/// `members`: HOST:PORT each, at least one. Nobody need answer yet.
std::unique_ptr<StateStore> MakeEtcdStore(const std::vector<std::string>& members);

}  // namespace weir::cluster
