// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir::daemon {

/// How a portal is started: by it tenants on other machines come.
struct PortalSetup {
  std::string program;   // weir-portal
  std::string listen;    // HOST:PORT
  std::string keys_dir;  // empty: plain connections, which prove nothing
  bool quiet = false;
};

}  // namespace weir::daemon
