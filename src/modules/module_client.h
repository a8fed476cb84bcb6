// SPDX-License-Identifier: Apache-2.0
// The service API for modules (docs/protocol/modules-api.md) as calls: of this node's weir-modules, or of managers.
// What the command line and libweir-client ask by.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "http/message.h"

namespace weir::modules {

/// Several threads may ask by one.
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

  /// For how long AskUntil asks one that is away; 60 s at first.
  void SetPatience(Duration patience) { shared_->patience = patience; }
  /// Called once by each AskUntil that begins to wait, with why. Set it before anybody asks.
  void OnPatience(std::function<void(const Error& why, Duration patience)> say) { say_ = std::move(say); }

  /// Asks the manager that answered last, and the others where it does not. Each call may be made twice: all that the
  /// API has may.
  Result<nlohmann::json> Ask(const std::string& method, const std::string& target, const std::string& body = "",
                             Duration timeout = seconds(30));
  /// Until somebody answers, for as long as there is patience.
  Result<nlohmann::json> AskUntil(const std::string& method, const std::string& target, const std::string& body = "",
                                  Duration timeout = seconds(30));
  /// The run as it ended. A service that was started again has forgotten it, and takes the same once more. kTimeout: it
  /// goes on.
  Result<nlohmann::json> WaitForEnd(const std::string& id, const std::string& body, Duration at_most);

  /// The blob's name.
  Result<std::string> PutBlob(const std::string& bytes);
  Result<std::string> GetBlob(const std::string& blob);

 private:
  struct Shared {
    std::atomic<std::size_t> manager = 0;  // that answered last
    std::atomic<Duration> patience{Duration(seconds(60))};
  };
  Result<http::Answer> AskAny(http::Call call, Duration timeout);

  std::string socket_;
  std::vector<Manager> managers_;
  std::string token_;
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  std::function<void(const Error&, Duration)> say_;
};

/// What no other run is called: by it a question may be asked twice.
Result<std::string> DrawRunId();
bool IsOver(const nlohmann::json& run);
/// Of a failed run.
Error ErrorOfRun(const nlohmann::json& run);

// Fields of replies; what isn't there, or is of another kind, is empty or 0.
std::string TextOf(const nlohmann::json& object, const char* field);
double NumberOf(const nlohmann::json& object, const char* field);
nlohmann::json ListOf(const nlohmann::json& object, const char* field);

}  // namespace weir::modules
