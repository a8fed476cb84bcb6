// SPDX-License-Identifier: Apache-2.0
#include "modules/module_client.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "http/client.h"
#include "http/json_api.h"
#include "modules/sha256.h"
#include "platform/clock.h"

namespace weir::modules {
namespace {

constexpr Duration kTryAgainAfter = milliseconds(200);
constexpr Duration kBlobWithin = seconds(120);
constexpr Duration kWaitStep = seconds(20);  // for one long poll of a run's end

bool IsAway(const Error& error) { return error.code == Errc::kUnavailable || error.code == Errc::kTimeout; }

std::string RequestText(const std::string& method, const std::string& target) {
  return fmt::format("asked for {} {}", method, target);
}

}  // namespace

Result<std::vector<ModuleClient::Manager>> ModuleClient::ParseManagers(const std::string& text) {
  std::vector<Manager> managers;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string one = text.substr(from, comma - from);
    from = comma + 1;
    const std::size_t colon = one.rfind(':');
    Manager manager{.host = one.substr(0, colon)};
    const char* end = one.data() + one.size();
    const char* digits = colon == std::string::npos ? end : one.data() + colon + 1;
    const auto [rest, error] = std::from_chars(digits, end, manager.port);
    if (manager.host.empty() || error != std::errc{} || rest != end || manager.port == 0)
      return Fail(Errc::kInvalidArgument, "a manager is HOST:PORT, not '" + one + "'");
    managers.push_back(std::move(manager));
  }
  return managers;
}

ModuleClient ModuleClient::OfNode(std::string socket) {
  ModuleClient client;
  client.socket_ = std::move(socket);
  return client;
}

ModuleClient ModuleClient::OfManagers(std::vector<Manager> managers, http::tls::Access access) {
  ModuleClient client;
  client.managers_ = std::move(managers);
  client.access_ = std::move(access);
  return client;
}

Result<http::Answer> ModuleClient::AskAny(http::Call call, Duration timeout) {
  if (managers_.empty()) {
    call.if_absent = "start the node's daemon with 'weir serve --modules VGPU', or name a cluster's managers";
    return http::AskUnix(socket_, call, timeout);
  }
  std::size_t which = shared_->manager;
  for (std::size_t tried = 1;; ++tried) {
    const Manager& manager = managers_[which];
    auto answer = http::tls::Ask(manager.host, manager.port, access_, call, timeout);
    // A manager that does not lead answers kUnavailable, like one that can't be reached.
    const bool away = answer ? answer->status == EntryOf(Errc::kUnavailable).http_status : IsAway(answer.error());
    if (!away) shared_->manager = which;
    if (!away || tried == managers_.size()) return answer;
    which = (which + 1) % managers_.size();
  }
}

Result<nlohmann::json> ModuleClient::Ask(const std::string& method, const std::string& target, const std::string& body,
                                         Duration timeout) {
  WEIR_TRY(const http::Answer answer, AskAny({.method = method, .target = target, .body = body}, timeout));
  return http::ObjectOf(answer, RequestText(method, target));
}

template <typename Attempt>
auto ModuleClient::Until(Attempt attempt) -> decltype(attempt()) {
  const Duration patience = shared_->patience;
  const Instant deadline = platform::Now() + patience;
  for (bool said = false;; said = true) {
    auto result = attempt();
    if (result || !IsAway(result.error()) || platform::Now() >= deadline) return result;
    if (!said && say_) say_(result.error(), patience);
    std::this_thread::sleep_for(kTryAgainAfter);
  }
}

Result<nlohmann::json> ModuleClient::AskUntil(const std::string& method, const std::string& target,
                                              const std::string& body, Duration timeout) {
  return Until([&] { return Ask(method, target, body, timeout); });
}

Result<nlohmann::json> ModuleClient::WaitForEnd(const std::string& id, const std::string& body, Duration at_most) {
  const Instant deadline = platform::Now() + at_most;
  const std::string target = "/v1/runs/" + http::PercentEncode(id);
  for (;;) {
    const Duration step = std::clamp<Duration>(deadline - platform::Now(), milliseconds(0), kWaitStep);
    auto run = AskUntil("GET", fmt::format("{}?wait_ms={}", target, step / milliseconds(1)), "", step + seconds(10));
    if (!run && run.error().code == Errc::kNotFound) run = AskUntil("PUT", target, body);
    if (!run || IsOver(*run)) return run;
    if (platform::Now() >= deadline)
      return Fail(Errc::kTimeout, fmt::format("run {} is not over: it is {}", id, TextOf(*run, "state")));
  }
}

Result<std::string> ModuleClient::PutBlob(const std::string& bytes) {
  const std::string blob = Sha256Of(bytes);
  const std::string target = "/v1/blobs/" + blob;
  const auto put = [&]() -> Result<nlohmann::json> {
    WEIR_TRY(const http::Answer answer,
             AskAny({.method = "PUT", .target = target, .body = bytes, .content_type = "application/octet-stream"},
                    kBlobWithin));
    return http::ObjectOf(answer, RequestText("PUT", target));
  };
  WEIR_TRY_STATUS(Until(put));
  return blob;
}

Result<std::string> ModuleClient::GetBlob(const std::string& blob) {
  const std::string target = "/v1/blobs/" + blob;
  WEIR_TRY(http::Answer answer, Until([&]() -> Result<http::Answer> {
             WEIR_TRY(http::Answer got, AskAny({.method = "GET", .target = target}, kBlobWithin));
             if (got.status != 200) {
               WEIR_TRY_STATUS(http::ObjectOf(got, RequestText("GET", target)));
             }
             return got;
           }));
  if (Sha256Of(answer.body) != blob) return Fail(Errc::kProtocol, "the data of blob " + blob + " are other bytes");
  return std::move(answer.body);
}

Result<std::string> DrawRunId() {
  std::uint64_t parts[2] = {};
  if (::getrandom(parts, sizeof parts, 0) != static_cast<ssize_t>(sizeof parts))
    return Fail(Errc::kIo, "the system has no random number for the run's id; choose an id yourself");
  return fmt::format("{:016x}{:016x}", parts[0], parts[1]);
}

bool IsOver(const nlohmann::json& run) {
  const std::string state = TextOf(run, "state");
  return state == "done" || state == "failed";
}

Error ErrorOfRun(const nlohmann::json& run) {
  const auto found = run.find("error");
  const nlohmann::json error = found != run.end() && found->is_object() ? *found : nlohmann::json::object();
  Errc code = Errc::kInternal;
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.name == TextOf(error, "code")) code = entry.code;
  return Fail(code, fmt::format("run {} failed: {}", TextOf(run, "id"), TextOf(error, "message")));
}

std::string TextOf(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

double NumberOf(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

nlohmann::json ListOf(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_array() ? *found : nlohmann::json::array();
}

}  // namespace weir::modules
