// SPDX-License-Identifier: Apache-2.0
#include "drivers/placement_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "drivers/shares.h"
#include "http/client.h"

namespace weir::drivers {
namespace {

std::string Attempted(const char* method, const std::string& target) {
  return fmt::format("asked OpenStack Placement for {} {}", method, target);
}

nlohmann::json InventoryBody(std::int64_t total, double ratio) {
  return {{"total", total},    {"reserved", 0},  {"min_unit", 1},
          {"max_unit", total}, {"step_size", 1}, {"allocation_ratio", ratio}};
}

}  // namespace

void PlacementDriver::Pause(int failures) {
  const double doubled = std::ldexp(static_cast<double>(settings_.pause_min.count()), std::min(failures, 20));
  const double pause = std::min(doubled, static_cast<double>(settings_.pause_max.count()));
  sleep_(Duration{static_cast<std::int64_t>(pause * (0.5 + 0.5 * prng_.Uniform()))});
}

Result<http::Answer> PlacementDriver::Once(const char* method, const std::string& target, const std::string& body) {
  http::Call call{.method = method, .target = target, .body = body};
  call.headers = {{"OpenStack-API-Version", kPlacementVersion}};
  return ask_(call);
}

Result<http::Answer> PlacementDriver::Call(const char* method, const std::string& target, const std::string& body) {
  for (int failures = 0;; ++failures) {
    WEIR_TRY(http::Answer answer, Once(method, target, body));
    auto refusal = RefusalOf(answer, Attempted(method, target));
    if (!refusal) return answer;
    if (!refusal->again || failures + 1 >= settings_.tries) return std::move(refusal->error);
    Pause(failures);
  }
}

Status PlacementDriver::ReadAndWrite(const std::function<Result<http::Answer>()>& turn, const std::string& attempted) {
  for (int failures = 0;; ++failures) {
    WEIR_TRY(const http::Answer answer, turn());
    auto refusal = RefusalOf(answer, attempted);
    if (!refusal) return Ok();
    if (!refusal->again || failures + 1 >= settings_.tries) return std::move(refusal->error);
    Pause(failures);
  }
}

Result<std::optional<PlacementProvider>> PlacementDriver::Find(const std::string& name) {
  WEIR_TRY(const http::Answer answer, Call("GET", "/resource_providers?name=" + http::PercentEncode(name)));
  return ParsePlacementProviders(answer);
}

Result<std::string> PlacementDriver::UuidOf(const std::string& gpu) {
  if (const auto known = uuids_.find(gpu); known != uuids_.end()) return known->second;
  WEIR_TRY(const auto provider, Find(ProviderName(gpu)));
  if (!provider)
    return Fail(Errc::kNotFound, fmt::format("OpenStack Placement has no resource provider '{}'", ProviderName(gpu)));
  return uuids_[gpu] = provider->uuid;
}

/// Finds or creates the provider, as a child of the host's provider if that exists by now.
Result<std::string> PlacementDriver::MakeProvider(const std::string& gpu) {
  const std::string name = ProviderName(gpu);
  WEIR_TRY(const auto host, Find(settings_.host_provider));
  WEIR_TRY(auto provider, Find(name));
  nlohmann::json body{{"name", name}};
  if (host) body["parent_provider_uuid"] = host->uuid;
  if (!provider) {
    WEIR_TRY(const http::Answer made, Once("POST", "/resource_providers", body.dump()));
    // 409: another driver of this device has created it first.
    if (made.status != 409)
      if (auto refusal = RefusalOf(made, Attempted("POST", "/resource_providers"))) return std::move(refusal->error);
    WEIR_TRY(provider, Find(name));
    if (!provider)
      return Fail(Errc::kBusy, fmt::format("created the resource provider '{}', but it does not exist", name));
  } else if (host && provider->parent.empty()) {
    WEIR_TRY(const http::Answer moved, Call("PUT", "/resource_providers/" + provider->uuid, body.dump()));
  }
  return uuids_[gpu] = provider->uuid;
}

std::string PlacementDriver::InventoryTarget(const std::string& uuid) const {
  return fmt::format("/resource_providers/{}/inventories/{}", uuid, settings_.resource_class);
}

Result<http::Answer> PlacementDriver::PutInventory(const std::string& uuid, std::int64_t generation, std::int64_t total,
                                                   double ratio) {
  nlohmann::json body = InventoryBody(total, ratio);
  body["resource_provider_generation"] = generation;
  return Once("PUT", InventoryTarget(uuid), body.dump());
}

Result<http::Answer> PlacementDriver::PostInventory(const std::string& uuid, std::int64_t total) {
  nlohmann::json body = InventoryBody(total, /*ratio=*/0.0);
  body["resource_class"] = settings_.resource_class;
  return Once("POST", fmt::format("/resource_providers/{}/inventories", uuid), body.dump());
}

Status PlacementDriver::Publish(const std::string& gpu, std::int64_t shares) {
  if (shares < 1 || shares > kSharesMax)
    return Fail(Errc::kInvalidArgument, fmt::format("a device has 1 to {} shares, not {}", kSharesMax, shares));
  WEIR_TRY(const http::Answer with_class, Call("PUT", "/resource_classes/" + settings_.resource_class));
  WEIR_TRY(const http::Answer with_trait, Call("PUT", "/traits/" + settings_.trait));
  WEIR_TRY(const std::string uuid, MakeProvider(gpu));

  const std::string traits_target = "/resource_providers/" + uuid + "/traits";
  WEIR_TRY_STATUS(ReadAndWrite(
      [&]() -> Result<http::Answer> {
        WEIR_TRY(http::Answer answer, Once("GET", traits_target));
        if (RefusalOf(answer, "")) return answer;
        WEIR_TRY(PlacementTraits traits, ParsePlacementTraits(answer));
        if (std::ranges::find(traits.names, settings_.trait) != traits.names.end()) return answer;
        traits.names.push_back(settings_.trait);
        const nlohmann::json body{{"resource_provider_generation", traits.generation}, {"traits", traits.names}};
        return Once("PUT", traits_target, body.dump());
      },
      Attempted("PUT", traits_target)));

  return ReadAndWrite(
      [&]() -> Result<http::Answer> {
        WEIR_TRY(http::Answer answer, Once("GET", InventoryTarget(uuid)));
        // PUT requires an existing inventory; POST conflicts if another driver creates it first.
        if (answer.status == 404) return PostInventory(uuid, shares);
        if (RefusalOf(answer, "")) return answer;
        WEIR_TRY(const PlacementInventory inventory, ParsePlacementInventory(answer));
        if (inventory.total == shares && inventory.reserved == 0) return answer;
        const std::int64_t sellable = SellableByRatio(inventory.ratio, inventory.total - inventory.reserved);
        return PutInventory(uuid, inventory.generation, shares, RatioFor(sellable, shares));
      },
      Attempted("PUT", InventoryTarget(uuid)));
}

Status PlacementDriver::SetSellable(const std::string& gpu, std::int64_t shares) {
  if (shares < 0) return Fail(Errc::kInvalidArgument, fmt::format("{} shares can't be sellable", shares));
  WEIR_TRY(const std::string uuid, UuidOf(gpu));
  Status done = ReadAndWrite(
      [&]() -> Result<http::Answer> {
        WEIR_TRY(http::Answer answer, Once("GET", InventoryTarget(uuid)));
        if (RefusalOf(answer, "")) return answer;
        WEIR_TRY(const PlacementInventory inventory, ParsePlacementInventory(answer));
        return PutInventory(uuid, inventory.generation, inventory.total, RatioFor(shares, inventory.total));
      },
      Attempted("PUT", InventoryTarget(uuid)));
  if (!done && done.error().code == Errc::kNotFound) uuids_.erase(gpu);
  return done;
}

Result<Usage> PlacementDriver::ReadUsage(const std::string& gpu) {
  WEIR_TRY(const std::string uuid, UuidOf(gpu));
  const auto asked = Call("GET", InventoryTarget(uuid));
  if (!asked) {
    if (asked.error().code == Errc::kNotFound) uuids_.erase(gpu);
    return asked.error();
  }
  WEIR_TRY(const PlacementInventory inventory, ParsePlacementInventory(*asked));
  WEIR_TRY(const http::Answer answer, Call("GET", "/resource_providers/" + uuid + "/allocations"));
  Usage usage;
  usage.sellable = SellableByRatio(inventory.ratio, inventory.total - inventory.reserved);
  WEIR_TRY(usage.grants, ParsePlacementAllocations(answer, settings_.resource_class));
  return usage;
}

}  // namespace weir::drivers
