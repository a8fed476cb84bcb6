// SPDX-License-Identifier: Apache-2.0
// Errors of the command line, each as one line in a common style.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): of the library CLI11
class App;
class ParseError;
}  // namespace CLI

namespace weir::cli {

/// The given command, as "weir vgpu create".
std::string CommandName(const CLI::App& app);

/// Names the wrong argument and, if a known name is near, the name that was probably meant. `app` has failed to parse
/// with `error`.
std::string UsageErrorText(const CLI::App& app, const CLI::ParseError& error);

/// "unknown command 'x'", with the nearest command of `app`.
std::string UnknownCommandText(const CLI::App& app, const std::string& word);

}  // namespace weir::cli
