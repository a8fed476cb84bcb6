// SPDX-License-Identifier: Apache-2.0
// One run of `weir`: the parsed command line and the resulting action.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common/control_client.h"
#include "cli/common/places.h"

namespace weir::cli {

/// A command's work; the value is the exit code.
using Action = std::function<Result<int>()>;

struct Session {
  PlaceFlags place_flags;
  bool json = false;
  std::vector<std::string> program;  // for `weir run` and similar commands: the program and its arguments
  Action action;

  [[nodiscard]] Places places() const { return FindPlaces(place_flags); }
  [[nodiscard]] ControlClient client() const { return ControlClient(places().socket); }
};

/// Prints the control API's reply unchanged, so that scripts do not depend on the tables.
void PrintJson(const nlohmann::json& object);

/// A message for the user, on stderr: "weir: …".
void Say(const std::string& message);
/// Prints each warning on stderr, as "weir: warning: …".
void Warn(const std::vector<std::string>& warnings);

}  // namespace weir::cli
