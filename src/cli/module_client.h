// SPDX-License-Identifier: Apache-2.0
// The service API for modules (docs/protocol/modules-api.md) as calls: of this node's weir-modules, or of managers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"

namespace weir::cli {

class ModuleClient {
 public:
  struct Manager {
    std::string host;
    std::uint16_t port = 0;
  };
  /// "gpu1:7800,gpu2:7800". kInvalidArgument.
  static Result<std::vector<Manager>> ParseManagers(const std::string& text);

  static ModuleClient OfNode(std::string socket);
  static ModuleClient OfManagers(std::vector<Manager> managers, std::string token);

  /// Asks the manager that answered last, and the others where it does not. Each call may be made twice: all that the
  /// API has may.
  Result<nlohmann::json> Ask(const std::string& method, const std::string& target, const std::string& body = "",
                             Duration timeout = seconds(30));
  /// Until somebody answers, at most this long.
  Result<nlohmann::json> AskUntil(Duration patience, const std::string& method, const std::string& target,
                                  const std::string& body = "", Duration timeout = seconds(30));

  /// The blob's name.
  Result<std::string> PutBlob(const std::string& bytes);
  Result<std::string> GetBlob(const std::string& blob);

 private:
  Result<http::Answer> AskAny(http::Call call, Duration timeout);

  std::string socket_;
  std::vector<Manager> managers_;
  std::size_t manager_ = 0;  // that answered last
  std::string token_;
};

}  // namespace weir::cli
