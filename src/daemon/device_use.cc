// SPDX-License-Identifier: Apache-2.0
#include "daemon/device_use.h"

#include <algorithm>
#include <limits>
#include <set>

#include "daemon/json_fields.h"

namespace weir::daemon {
namespace {

constexpr std::size_t kDevicesMax = 1024;

Result<std::uint64_t> TakeNs(nlohmann::json& body, const char* name) {
  if (!body.is_object() || !body.contains(name)) return Fail(Errc::kInvalidArgument, std::string(name) + " is missing");
  std::uint64_t value = 0;
  WEIR_TRY_STATUS(TakeUnsigned(body, name, value));
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return Fail(Errc::kInvalidArgument, std::string(name) + " is too large");
  return value;
}

Result<nlohmann::json> TakeList(nlohmann::json& body, const char* name, std::size_t most) {
  if (!body.is_object() || !body.contains(name) || !body[name].is_array())
    return Fail(Errc::kInvalidArgument, std::string(name) + " must be a list");
  nlohmann::json list = std::move(body[name]);
  body.erase(name);
  if (list.size() > most)
    return Fail(Errc::kInvalidArgument, std::string(name) + " has more than " + std::to_string(most) + " entries");
  return list;
}

Result<ClientUse> ClientFrom(nlohmann::json& body) {
  ClientUse client;
  if (!body.is_object() || !body.contains("key")) return Fail(Errc::kInvalidArgument, "key is missing");
  WEIR_TRY_STATUS(TakeUnsigned(body, "key", client.key));
  WEIR_TRY(const std::uint64_t pid, TakeNs(body, "pid"));
  if (pid > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max()))
    return Fail(Errc::kInvalidArgument, "pid is too large");
  client.pid = static_cast<pid_t>(pid);
  WEIR_TRY(const std::uint64_t used, TakeNs(body, "used_ns"));
  client.used = Duration{static_cast<std::int64_t>(used)};
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  return client;
}

}  // namespace

Result<std::vector<DeviceUse>> DeviceUsesFrom(std::string_view text) {
  WEIR_TRY(nlohmann::json body, ParseObject(text));
  WEIR_TRY(nlohmann::json devices, TakeList(body, "devices", kDevicesMax));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  std::vector<DeviceUse> uses;
  for (nlohmann::json& each : devices) {
    DeviceUse use;
    if (!each.is_object()) return Fail(Errc::kInvalidArgument, "devices must be a list of objects");
    WEIR_TRY_STATUS(TakeString(each, "device", use.device));
    if (use.device.empty()) return Fail(Errc::kInvalidArgument, "device is missing");
    if (each.contains("busy_ns")) {
      WEIR_TRY(const std::uint64_t busy, TakeNs(each, "busy_ns"));
      use.busy = Duration{static_cast<std::int64_t>(busy)};
    }
    WEIR_TRY(nlohmann::json clients, TakeList(each, "processes", core::UseReconciler::kCountersMax));
    WEIR_TRY_STATUS(ExpectNothingLeft(each));
    std::set<std::uint64_t> keys;
    for (nlohmann::json& one : clients) {
      WEIR_TRY(const ClientUse client, ClientFrom(one));
      if (!keys.insert(client.key).second) return Fail(Errc::kInvalidArgument, "two processes have the same key");
      use.clients.push_back(client);
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

void ProcessOwners::Ended(Instant now, pid_t pid, Owner owner) {
  ended_.push_back({pid, owner, now});
  if (ended_.size() > kEndedMax) ended_.pop_front();
}

std::vector<core::UseCounter> ProcessOwners::CountersOf(Instant now, const std::vector<ClientUse>& clients,
                                                        const std::map<pid_t, Owner>& living) {
  while (!ended_.empty() && now - ended_.front().at > kRetention) ended_.pop_front();
  std::vector<core::UseCounter> counters;
  counters.reserve(clients.size());
  for (const ClientUse& client : clients) {
    Owner owner;
    if (const auto here = living.find(client.pid); here != living.end()) {
      owner = here->second;
    } else if (const auto last = std::find_if(ended_.rbegin(), ended_.rend(),
                                              [&](const EndedProcess& ended) { return ended.pid == client.pid; });
               last != ended_.rend()) {
      owner = last->owner;
    }
    counters.push_back({.vgpu = owner.vgpu, .process = owner.process, .key = client.key, .total = client.used});
  }
  return counters;
}

}  // namespace weir::daemon
