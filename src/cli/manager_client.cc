// SPDX-License-Identifier: Apache-2.0
#include "cli/manager_client.h"

#include <thread>

#include "cli/common/places.h"
#include "http/client.h"
#include "http/json_api.h"
#include "platform/clock.h"

namespace weir::cli {
namespace {

constexpr const char* kManagerHere = "127.0.0.1:7710";
constexpr Duration kAnswerMax = seconds(3);
constexpr Duration kLeaderMax = seconds(8);  // longer than another manager needs to take the lead
constexpr Duration kAskAgainAfter = milliseconds(200);

}  // namespace

void AddManagerOptions(const Command& command, ManagerFlags& flags) {
  command.Add("--manager", "HOST:PORT,...", flags.managers,
              std::string("The cluster's managers (default: $WEIR_MANAGER, else ") + kManagerHere + ")");
  command.Add("--token", "FILE", flags.token_file, "Your token for the managers (default: $WEIR_MANAGER_TOKEN)");
}

Result<ManagerClient> ManagerClient::Make(const ManagerFlags& flags) {
  std::string managers = flags.managers.empty() ? EnvironmentVariable("WEIR_MANAGER") : flags.managers;
  if (managers.empty()) managers = kManagerHere;
  ManagerClient client;
  WEIR_TRY(client.managers_, cluster::ParseAddresses(managers));
  const std::string token = flags.token_file.empty() ? EnvironmentVariable("WEIR_MANAGER_TOKEN") : flags.token_file;
  if (!token.empty()) {
    WEIR_TRY(client.access_, http::tls::ReadAccess(token));
  }
  return client;
}

Result<nlohmann::json> ManagerClient::Ask(const cluster::Address& manager, const std::string& target) const {
  WEIR_TRY(
      const http::Answer answer,
      http::tls::Ask(
          manager.host, manager.port, access_,
          {.method = "GET", .target = target, .if_absent = "start one with 'weir manager', or name it with --manager"},
          kAnswerMax));
  return http::ObjectOf(answer, "asked the manager at " + manager.Text() + " for " + target);
}

Result<nlohmann::json> ManagerClient::Get(const std::string& target) const {
  const Instant until = platform::Now() + kLeaderMax;
  for (;;) {
    bool answered = false;
    Result<nlohmann::json> answer = Fail(Errc::kUnavailable, "");
    for (const cluster::Address& manager : managers_) {
      answer = Ask(manager, target);
      if (answer || answer.error().code != Errc::kUnavailable) return answer;
      answered |= answer.error().message.find("does not lead") != std::string::npos;
    }
    if (!answered || platform::Now() >= until) return answer;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

std::vector<std::pair<std::string, Result<nlohmann::json>>> ManagerClient::GetOfEach(const std::string& target) const {
  std::vector<std::pair<std::string, Result<nlohmann::json>>> all;
  for (const cluster::Address& manager : managers_) all.emplace_back(manager.Text(), Ask(manager, target));
  return all;
}

}  // namespace weir::cli
