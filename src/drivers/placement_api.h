// SPDX-License-Identifier: Apache-2.0
// OpenStack Placement's answers, as far as a driver reads them: bounded, checked, pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "drivers/engine_driver.h"
#include "http/message.h"

namespace weir::drivers {

/// The version of its API that is spoken: parents may be given later (1.37), bodies of made providers (1.20).
inline constexpr const char* kPlacementVersion = "placement 1.37";

/// Where it is: "http://HOST[:PORT][/PATH]".
struct PlacementPlace {
  std::string host;
  std::uint16_t port = 8778;
  std::string base;  // "" or "/placement"
};
Result<PlacementPlace> ParsePlacementUrl(std::string_view url);

struct PlacementProvider {
  std::string uuid;
  std::int64_t generation = 0;
  std::string parent;  // empty: none
};
struct PlacementInventory {
  std::int64_t generation = 0;  // of its provider
  std::int64_t total = 0;
  std::int64_t reserved = 0;
  double ratio = 1;
};

/// The first of a list that has at most one: names are unique.
Result<std::optional<PlacementProvider>> ParsePlacementProviders(const http::Answer& answer);
Result<PlacementInventory> ParsePlacementInventory(const http::Answer& answer);
/// Who has how much of `resource_class`, by consumer.
Result<std::vector<Grant>> ParsePlacementAllocations(const http::Answer& answer, std::string_view resource_class);
struct PlacementTraits {
  std::int64_t generation = 0;
  std::vector<std::string> names;
};
Result<PlacementTraits> ParsePlacementTraits(const http::Answer& answer);

/// What a refusal means. `again`: reading again and trying again may help (another one was quicker, or it is
/// overloaded).
struct PlacementRefusal {
  Error error;
  bool again = false;
};
/// Nothing for 2xx.
std::optional<PlacementRefusal> RefusalOf(const http::Answer& answer, const std::string& attempted);

}  // namespace weir::drivers
