// SPDX-License-Identifier: Apache-2.0
// OpenStack Placement and Slurm in memory, as far as their drivers use them. Their replies follow those of real ones;
// tests/e2e/openstack_e2e.py and slurm_e2e.py run the same tests on real ones.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "drivers/command_output.h"
#include "http/message.h"

namespace weir::testing {

class ModelPlacement {
 public:
  struct Inventory {
    std::int64_t total = 0;
    double ratio = 1;
  };
  struct Provider {
    std::string name, parent;
    std::int64_t generation = 0;
    std::vector<std::string> traits;
    std::map<std::string, Inventory> inventories;
    std::map<std::string, std::int64_t> allocations;  // by consumer; all are of one resource class
  };
  std::map<std::string, Provider> providers;  // by uuid
  int asked = 0;
  /// Called before each request. May change this model, and may return an answer that replaces the model's.
  std::function<std::optional<http::Answer>(const http::Call&)> before;

  static std::string Uuid(int n) { return fmt::format("00000000-0000-4000-8000-{:012}", n); }
  static http::Answer Error(unsigned status, const std::string& code) {
    const nlohmann::json error{{"status", status}, {"detail", "so it is"}, {"code", code}};
    return {status, nlohmann::json{{"errors", nlohmann::json::array({error})}}.dump()};
  }

  Provider* Named(const std::string& name) {
    for (auto& [uuid, provider] : providers)
      if (provider.name == name) return &provider;
    return nullptr;
  }
  std::string Add(const std::string& name, const std::string& parent = "") {
    const std::string uuid = Uuid(static_cast<int>(providers.size()) + 1);
    providers[uuid].name = name;
    providers[uuid].parent = parent;
    return uuid;
  }
  bool Take(Provider& provider, const std::string& consumer, std::int64_t shares) {
    const Inventory& inventory = provider.inventories.begin()->second;
    std::int64_t used = shares;
    for (const auto& [who, n] : provider.allocations) used += n;
    if (used > static_cast<std::int64_t>(static_cast<double>(inventory.total) * inventory.ratio)) return false;
    provider.allocations[consumer] = shares;
    ++provider.generation;
    return true;
  }

  http::Answer Ask(const http::Call& call) {
    ++asked;
    if (before)
      if (auto answer = before(call)) return *answer;
    const nlohmann::json body = call.body.empty() ? nlohmann::json() : nlohmann::json::parse(call.body);
    const std::string providers_at = "/resource_providers", by_name = providers_at + "?name=";
    if (call.target.starts_with("/resource_classes/") || call.target.starts_with("/traits/")) return {201, ""};
    if (call.method == "GET" && call.target.starts_with(by_name)) return Listed(call.target.substr(by_name.size()));
    if (call.method == "POST" && call.target == providers_at) {
      if (Named(body["name"]) != nullptr) return Error(409, "placement.duplicate_name");
      Add(body["name"], body.value("parent_provider_uuid", ""));
      return {200, "{}"};
    }
    const std::string uuid = call.target.substr(providers_at.size() + 1, 36);
    const std::string rest = call.target.substr(std::min(providers_at.size() + 1 + 36, call.target.size()));
    if (!providers.contains(uuid)) return Error(404, "placement.undefined_code");
    Provider& provider = providers[uuid];
    if (rest.empty() && call.method == "PUT") {
      provider.parent = body["parent_provider_uuid"].get<std::string>();
      return {200, "{}"};
    }
    if (rest == "/allocations") return Allocations(provider);
    if (call.method == "POST" && rest == "/inventories") {
      const auto name = body["resource_class"].get<std::string>();
      if (provider.inventories.contains(name)) return Error(409, "placement.concurrent_update");
      provider.inventories[name] = InventoryOf(body);
      ++provider.generation;
      return {201, "{}"};
    }
    if (call.method == "PUT" && body["resource_provider_generation"] != provider.generation)
      return Error(409, "placement.concurrent_update");
    if (rest == "/traits") return Traits(provider, call, body);
    return OfInventory(provider, rest.substr(std::string("/inventories/").size()), call, body);
  }

 private:
  static Inventory InventoryOf(const nlohmann::json& body) {
    return {body["total"].get<std::int64_t>(), body["allocation_ratio"].get<double>()};
  }
  http::Answer Listed(const std::string& name) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [uuid, provider] : providers)
      if (provider.name == name)
        list.push_back(
            {{"uuid", uuid},
             {"name", name},
             {"generation", provider.generation},
             {"parent_provider_uuid", provider.parent.empty() ? nlohmann::json() : nlohmann::json(provider.parent)}});
    return {200, nlohmann::json{{"resource_providers", list}}.dump()};
  }
  static http::Answer Allocations(const Provider& provider) {
    nlohmann::json consumers = nlohmann::json::object();
    for (const auto& [consumer, shares] : provider.allocations)
      consumers[consumer] = {{"resources", {{"CUSTOM_VGPU_SHARE", shares}}}};
    return {200,
            nlohmann::json{{"allocations", consumers}, {"resource_provider_generation", provider.generation}}.dump()};
  }
  static http::Answer Traits(Provider& provider, const http::Call& call, const nlohmann::json& body) {
    if (call.method == "PUT") {
      provider.traits = body["traits"].get<std::vector<std::string>>();
      ++provider.generation;
    }
    return {200,
            nlohmann::json{{"traits", provider.traits}, {"resource_provider_generation", provider.generation}}.dump()};
  }
  static http::Answer OfInventory(Provider& provider, const std::string& name, const http::Call& call,
                                  const nlohmann::json& body) {
    if (call.method == "PUT") {
      if (!provider.inventories.contains(name)) return Error(400, "placement.undefined_code");
      provider.inventories[name] = InventoryOf(body);
      ++provider.generation;
    }
    if (!provider.inventories.contains(name)) return Error(404, "placement.undefined_code");
    const Inventory& inventory = provider.inventories[name];
    return {200, nlohmann::json{{"resource_provider_generation", provider.generation},
                                {"total", inventory.total},
                                {"reserved", 0},
                                {"allocation_ratio", inventory.ratio}}
                     .dump()};
  }
};

class ModelSlurm {
 public:
  std::int64_t total = 16;
  std::optional<std::int64_t> hold;  // empty: there is no reservation
  std::map<int, std::int64_t> jobs;  // licences, by job number
  std::vector<std::vector<std::string>> asked;

  [[nodiscard]] std::int64_t Used() const {
    std::int64_t used = 0;
    for (const auto& [job, n] : jobs) used += n;
    return used;
  }
  bool Take(int job, std::int64_t licences) {
    if (Used() + licences > total - hold.value_or(0)) return false;
    jobs[job] = licences;
    return true;
  }
  drivers::CommandOutput Run(const std::vector<std::string>& argv) {
    asked.push_back(argv);
    if (argv[0] == "squeue") {
      std::string text;
      for (const auto& [job, n] : jobs) text += fmt::format("{}|1000|vgpu:{}\n", job, n);
      return {0, text + "999|1001|\n"};
    }
    if (argv[2] == "show" && argv[3] == "licenses")
      return {0, fmt::format("LicenseName=vgpu Total={} Used={} Free={} Reserved={} Remote=no\n", total, Used(),
                             total - Used(), hold.value_or(0))};
    if (argv[2] == "show") {
      if (!hold) return {1, "Reservation weir-hold not found\n"};
      return {0, fmt::format("ReservationName=weir-hold Duration=365-00:00:00 Licenses=vgpu:{} State=ACTIVE\n", *hold)};
    }
    if (argv[1] == "update" && !hold) return {1, "Requested reservation is invalid\n"};
    for (const std::string& word : argv)
      if (word.starts_with("licenses=vgpu:")) hold = std::stoll(word.substr(14));
    return {0, "Reservation updated.\n"};
  }
};

}  // namespace weir::testing
