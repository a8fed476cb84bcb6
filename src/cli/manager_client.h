// SPDX-License-Identifier: Apache-2.0
// A cluster's managers as one that answers: whoever leads is found, also while another one takes over.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "cluster/addresses.h"

namespace weir::cli {

struct ManagerFlags {
  std::string managers, token_file;
};
/// --manager and --token. Without --manager: WEIR_MANAGER, else the one on this machine.
void AddManagerOptions(const Command& command, ManagerFlags& flags);

class ManagerClient {
 public:
  static Result<ManagerClient> Make(const ManagerFlags& flags);
  /// The reply, a JSON object, of the manager that leads. Tries for some seconds while none does.
  [[nodiscard]] Result<nlohmann::json> Get(const std::string& target) const;
  /// Of each manager for itself.
  [[nodiscard]] std::vector<std::pair<std::string, Result<nlohmann::json>>> GetOfEach(const std::string& target) const;

 private:
  [[nodiscard]] Result<nlohmann::json> Ask(const cluster::Address& manager, const std::string& target) const;
  std::vector<cluster::Address> managers_;
  std::string token_;
};

}  // namespace weir::cli
