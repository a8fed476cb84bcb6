// SPDX-License-Identifier: Apache-2.0
// A client of a cluster's managers that finds the leader, also during a change of the lead.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "cluster/addresses.h"
#include "http/tls/client.h"

namespace weir::cli {

struct ManagerFlags {
  std::string managers, token_file;
};
/// --manager and --token. The default is WEIR_MANAGER, or the manager on this machine.
void AddManagerOptions(const Command& command, ManagerFlags& flags);

class ManagerClient {
 public:
  static Result<ManagerClient> Make(const ManagerFlags& flags);
  /// The leader's reply, a JSON object. Retries for some seconds while no manager leads.
  [[nodiscard]] Result<nlohmann::json> Get(const std::string& target) const;
  /// The reply of each manager.
  [[nodiscard]] std::vector<std::pair<std::string, Result<nlohmann::json>>> GetOfEach(const std::string& target) const;

 private:
  [[nodiscard]] Result<nlohmann::json> Ask(const cluster::Address& manager, const std::string& target) const;
  std::vector<cluster::Address> managers_;
  http::tls::Access access_;
};

}  // namespace weir::cli
