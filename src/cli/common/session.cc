// SPDX-License-Identifier: Apache-2.0
#include "cli/common/session.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/common/table.h"

namespace weir::cli {

void PrintJson(const nlohmann::json& object) {
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Say(const std::string& message) { fmt::print(stderr, "weir: {}\n", Printable(message)); }

void Warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) Say("warning: " + warning);
}

}  // namespace weir::cli
