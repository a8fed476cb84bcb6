// SPDX-License-Identifier: Apache-2.0
// The state in etcd, through its v3 protocol. Every call has its own deadline and tries the next member when one does
// not answer; otherwise a hanging member would block a manager for seconds.
#pragma once

#include <memory>

#include "cluster/state_store.h"

namespace weir::cluster {

/// What etcd's members ask for. All fields are empty: neither TLS nor a password.
struct EtcdAccess {
  std::string authority{};           // file with the certificates that the members' are checked against; starts TLS
  std::string certificate{}, key{};  // files of this client's certificate, which the members may ask for
  std::string user{}, password{};
};

/// `members`: at least one HOST:PORT. None needs to be reachable yet. Errors: a file of `access` can't be read.
Result<std::unique_ptr<StateStore>> MakeEtcdStore(const std::vector<std::string>& members, const EtcdAccess& access);

}  // namespace weir::cluster
