// SPDX-License-Identifier: Apache-2.0
// Parsers of OpenStack Placement's replies: bounded, checked, pure.
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

/// The API version in use: parents may be set later (1.37), and creating a provider returns its body (1.20).
inline constexpr const char* kPlacementVersion = "placement 1.37";

/// The server's address: "https://HOST[:PORT][/PATH]", or the same with http.
struct PlacementPlace {
  bool encrypted = true;
  std::string host;
  std::uint16_t port = 443;
  std::string base;  // "" or "/placement"
};
Result<PlacementPlace> ParsePlacementUrl(std::string_view url);

struct PlacementProvider {
  std::string uuid;
  std::int64_t generation = 0;
  std::string parent;  // empty: none
};
struct PlacementInventory {
  std::int64_t generation = 0;  // of the resource provider
  std::int64_t total = 0;
  std::int64_t reserved = 0;
  double ratio = 1;
};

/// The provider in a list of at most one, since names are unique. Empty: the list is empty.
Result<std::optional<PlacementProvider>> ParsePlacementProviders(const http::Answer& answer);
Result<PlacementInventory> ParsePlacementInventory(const http::Answer& answer);
/// Each consumer's amount of `resource_class`.
Result<std::vector<Grant>> ParsePlacementAllocations(const http::Answer& answer, std::string_view resource_class);
struct PlacementTraits {
  std::int64_t generation = 0;
  std::vector<std::string> names;
};
Result<PlacementTraits> ParsePlacementTraits(const http::Answer& answer);

/// The meaning of an error reply. `again`: reading and trying again may help (another client wrote first, or the server
/// is overloaded).
struct PlacementRefusal {
  Error error;
  bool again = false;
};
/// Empty for status 2xx.
std::optional<PlacementRefusal> RefusalOf(const http::Answer& answer, const std::string& attempted);

}  // namespace weir::drivers
