// SPDX-License-Identifier: Apache-2.0
#include "cli/common/session.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/common/table.h"

namespace weir::cli {

void PrintJson(const nlohmann::json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Say(const std::string& message) { fmt::print(stderr, "weir: {}\n", Printable(message)); }

}  // namespace weir::cli
