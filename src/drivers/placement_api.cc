// SPDX-License-Identifier: Apache-2.0
#include "drivers/placement_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "http/json_api.h"

namespace weir::drivers {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kUuidChars = 36;
constexpr std::size_t kConsumersMax = 100'000;
constexpr std::int64_t kGenerationMax = std::int64_t{1} << 62;

Error NotPlacements(std::string_view what) {
  return Fail(Errc::kProtocol,
              fmt::format("cannot read {} in the reply; check that OpenStack Placement listens there", what));
}

/// The body's member `key`, which must have this type.
Result<Json> Member(const http::Answer& answer, const char* key, Json::value_t type) {
  Json body = http::ParseJson(answer.body);
  if (!body.is_object()) return NotPlacements("JSON");
  const auto found = body.find(key);
  if (found == body.end() || found->type() != type) return NotPlacements(key);
  return std::move(*found);
}

Result<std::int64_t> WholeOf(const Json& object, const char* key, std::int64_t min, std::int64_t max) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return NotPlacements(key);
  const bool beyond = found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  const std::int64_t value = beyond ? max : found->get<std::int64_t>();
  if (beyond || value < min || value > max) return NotPlacements(key);
  return value;
}

bool IsUuid(std::string_view text) {
  return text.size() == kUuidChars && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
         });
}

Result<Json> ObjectIn(const http::Answer& answer) {
  Json body = http::ParseJson(answer.body);
  if (!body.is_object()) return NotPlacements("JSON");
  return body;
}

}  // namespace

Result<PlacementPlace> ParsePlacementUrl(std::string_view url) {
  constexpr std::string_view kHttps = "https://", kHttp = "http://";
  const auto wrong = [&](std::string_view why) {
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not an address of OpenStack Placement: {}; give https://HOST[:PORT][/PATH]",
                            Printable(url), why));
  };
  PlacementPlace place;
  place.encrypted = url.starts_with(kHttps);
  if (!place.encrypted && !url.starts_with(kHttp)) return wrong("it begins with neither https:// nor http://");
  std::string_view rest = url.substr((place.encrypted ? kHttps : kHttp).size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view host = rest.substr(0, slash), base = rest.substr(slash);
  while (base.ends_with('/')) base.remove_suffix(1);
  const std::size_t colon = host.ends_with(']') ? std::string_view::npos : host.rfind(':');
  if (colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), place.port);
    if (error != std::errc() || end != port.data() + port.size() || place.port == 0)
      return wrong("its port isn't 1 to 65535");
    host = host.substr(0, colon);
  } else {
    place.port = place.encrypted ? 443 : 80;
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto plain = [](char c) { return c > ' ' && c <= '~' && c != '?' && c != '#' && c != '@'; };
  if (host.empty() || !std::ranges::all_of(host, plain) || !std::ranges::all_of(base, plain))
    return wrong("its host or path");
  place.host = host;
  place.base = base;
  return place;
}

Result<std::optional<PlacementProvider>> ParsePlacementProviders(const http::Answer& answer) {
  WEIR_TRY(const Json list, Member(answer, "resource_providers", Json::value_t::array));
  if (list.empty()) return std::optional<PlacementProvider>();
  if (list.size() > 1 || !list[0].is_object()) return NotPlacements("one resource provider");
  const Json& first = list[0];
  PlacementProvider provider;
  const auto uuid = first.find("uuid"), parent = first.find("parent_provider_uuid");
  if (uuid == first.end() || !uuid->is_string() || !IsUuid(uuid->get_ref<const std::string&>()))
    return NotPlacements("uuid");
  provider.uuid = uuid->get<std::string>();
  WEIR_TRY(provider.generation, WholeOf(first, "generation", 0, kGenerationMax));
  if (parent != first.end() && parent->is_string()) {
    if (!IsUuid(parent->get_ref<const std::string&>())) return NotPlacements("parent_provider_uuid");
    provider.parent = parent->get<std::string>();
  }
  return std::optional<PlacementProvider>(provider);
}

Result<PlacementInventory> ParsePlacementInventory(const http::Answer& answer) {
  WEIR_TRY(const Json body, ObjectIn(answer));
  PlacementInventory inventory;
  WEIR_TRY(inventory.generation, WholeOf(body, "resource_provider_generation", 0, kGenerationMax));
  WEIR_TRY(inventory.total, WholeOf(body, "total", 1, kSharesMax));
  WEIR_TRY(inventory.reserved, WholeOf(body, "reserved", 0, kSharesMax));
  const auto ratio = body.find("allocation_ratio");
  if (ratio == body.end() || !ratio->is_number()) return NotPlacements("allocation_ratio");
  inventory.ratio = ratio->get<double>();
  if (!std::isfinite(inventory.ratio) || inventory.ratio < 0 || inventory.ratio > 1e6)
    return NotPlacements("allocation_ratio");
  return inventory;
}

Result<std::vector<Grant>> ParsePlacementAllocations(const http::Answer& answer, std::string_view resource_class) {
  WEIR_TRY(const Json consumers, Member(answer, "allocations", Json::value_t::object));
  if (consumers.size() > kConsumersMax) return NotPlacements(fmt::format("at most {} consumers", kConsumersMax));
  std::vector<Grant> grants;
  const std::string wanted(resource_class);
  for (const auto& [consumer, allocation] : consumers.items()) {
    if (!IsUuid(consumer)) return NotPlacements("a consumer's uuid");
    const auto resources = allocation.is_object() ? allocation.find("resources") : allocation.end();
    if (resources == allocation.end() || !resources->is_object()) return NotPlacements("a consumer's resources");
    if (!resources->contains(wanted)) continue;
    Grant grant{.consumer = consumer, .shares = 0, .uid = {}};
    WEIR_TRY(grant.shares, WholeOf(*resources, wanted.c_str(), 1, kSharesMax));
    grants.push_back(std::move(grant));
  }
  return grants;
}

Result<PlacementTraits> ParsePlacementTraits(const http::Answer& answer) {
  WEIR_TRY(const Json body, ObjectIn(answer));
  PlacementTraits traits;
  WEIR_TRY(traits.generation, WholeOf(body, "resource_provider_generation", 0, kGenerationMax));
  const auto names = body.find("traits");
  if (names == body.end() || !names->is_array() || names->size() > 1000) return NotPlacements("traits");
  for (const Json& name : *names) {
    if (!name.is_string()) return NotPlacements("a trait");
    traits.names.push_back(name.get<std::string>());
  }
  return traits;
}

std::optional<PlacementRefusal> RefusalOf(const http::Answer& answer, const std::string& attempted) {
  if (answer.status >= 200 && answer.status <= 299) return {};
  const Json body = http::ParseJson(answer.body);
  std::string code, detail;
  if (body.is_object() && body.contains("errors") && body["errors"].is_array() && !body["errors"].empty()) {
    const Json& first = body["errors"][0];
    const auto text = [&](const char* key) {
      return first.is_object() && first.contains(key) && first[key].is_string() ? first[key].get<std::string>() : "";
    };
    code = text("code");
    detail = Printable(text("detail").substr(0, 300));  // made printable for logs and terminals
  }
  const auto fail = [&](Errc errc, std::string_view what_to_do) {
    return Fail(errc, fmt::format("{}: HTTP {} {}{}", attempted, answer.status, detail, what_to_do));
  };
  switch (answer.status) {
    case 401:
    case 403:
      return PlacementRefusal{
          fail(Errc::kPermissionDenied, " (the token: is it still valid, and has its user the role admin?)")};
    case 404: return PlacementRefusal{fail(Errc::kNotFound, "")};
    case 409: return PlacementRefusal{fail(Errc::kBusy, ""), code == "placement.concurrent_update"};
    case 500:
    case 502:
    case 503:
    case 504: return PlacementRefusal{fail(Errc::kUnavailable, ""), true};
    default: return PlacementRefusal{fail(answer.status < 500 ? Errc::kProtocol : Errc::kUnavailable, "")};
  }
}

}  // namespace weir::drivers
