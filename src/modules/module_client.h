// SPDX-License-Identifier: Apache-2.0
// The service API for modules (docs/protocol/modules-api.md) as calls, to this node's weir-modules or to managers. Used
// by the command line and libweir-client.
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
#include "http/tls/client.h"

namespace weir::modules {

/// Several threads may use one client.
class ModuleClient {
 public:
  struct Manager {
    std::string host;
    std::uint16_t port = 0;
  };
  /// "gpu1:7800,gpu2:7800". kInvalidArgument.
  static Result<std::vector<Manager>> ParseManagers(const std::string& text);

  static ModuleClient OfNode(std::string socket);
  static ModuleClient OfManagers(std::vector<Manager> managers, http::tls::Access access);

  /// How long AskUntil, PutBlob and GetBlob retry an unavailable service; initially 60 s.
  void SetPatience(Duration patience) { shared_->patience = patience; }
  /// `say` is called once by each of these calls that starts to retry, with the reason. Must be set before other
  /// threads use the client.
  void OnPatience(std::function<void(const Error& why, Duration patience)> say) { say_ = std::move(say); }

  /// Asks the manager that answered last and then the others. A request may be sent twice; all requests of the API are
  /// idempotent.
  Result<nlohmann::json> Ask(const std::string& method, const std::string& target, const std::string& body = "",
                             Duration timeout = seconds(30));
  /// As Ask, but retries while the service is unavailable, up to the patience.
  Result<nlohmann::json> AskUntil(const std::string& method, const std::string& target, const std::string& body = "",
                                  Duration timeout = seconds(30));
  /// Waits for the run to end and returns it. A restarted service has forgotten the run; it is then submitted again
  /// with the same id. kTimeout: the run has not ended.
  Result<nlohmann::json> WaitForEnd(const std::string& id, const std::string& body, Duration at_most);

  // A service takes and sends only so many large blobs at the same time, and answers further requests with
  // kUnavailable. These try again then.
  /// Returns the blob's name.
  Result<std::string> PutBlob(const std::string& bytes);
  Result<std::string> GetBlob(const std::string& blob);

 private:
  struct Shared {
    std::atomic<std::size_t> manager = 0;  // the one that answered last
    std::atomic<Duration> patience{Duration(seconds(60))};
  };
  /// Repeats the attempt while the service is unavailable, up to the patience.
  template <typename Attempt>
  auto Until(Attempt attempt) -> decltype(attempt());
  Result<http::Answer> AskAny(http::Call call, Duration timeout);

  std::string socket_;
  std::vector<Manager> managers_;
  http::tls::Access access_;
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  std::function<void(const Error&, Duration)> say_;
};

/// A new unique run id. It makes a repeated submission harmless.
Result<std::string> DrawRunId();
bool IsOver(const nlohmann::json& run);
/// The error of a failed run.
Error ErrorOfRun(const nlohmann::json& run);

// Fields of replies; a field that is absent or has another type counts as empty or 0.
std::string TextOf(const nlohmann::json& object, const char* field);
double NumberOf(const nlohmann::json& object, const char* field);
nlohmann::json ListOf(const nlohmann::json& object, const char* field);

}  // namespace weir::modules
