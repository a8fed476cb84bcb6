// SPDX-License-Identifier: Apache-2.0
// The token that a page shows for each request, and the file that keeps it over a restart.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::dashboard {

/// 32 random bytes in hexadecimal.
inline constexpr std::size_t kTokenDigits = 64;
Result<std::string> NewToken();
bool IsToken(std::string_view text);

/// The token of this file. A file that is missing, is not this user's alone, or holds no token is replaced by one with
/// a new token, mode 0600. Processes that find no file at the same time get the same
/// token.
Result<std::string> KeepToken(const std::string& path);

}  // namespace weir::dashboard
