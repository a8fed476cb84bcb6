// SPDX-License-Identifier: Apache-2.0
// The text for an option that getopt_long has rejected.
#pragma once

#include <getopt.h>

#include <string>

namespace weir::platform {

/// `code`: what getopt_long returned, '?' or ':'. Its short options must begin with a colon, so that it prints nothing
/// itself and returns ':' for a missing value.
inline std::string OptionError(int code, char* const* argv) {
  // An unknown letter within "-hx" is only in optopt; for long options optopt is zero or the option's small value.
  if (code == '?' && ::optopt > ' ') return std::string("unknown option '-") + static_cast<char>(::optopt) + "'";
  const std::string option = argv[::optind - 1];
  return code == ':' ? "option '" + option + "' needs a value" : "unknown option '" + option + "'";
}

}  // namespace weir::platform
