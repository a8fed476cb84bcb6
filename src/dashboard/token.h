// SPDX-License-Identifier: Apache-2.0
// The token that a page sends with each request, and the file that keeps it over a restart.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::dashboard {

/// 32 random bytes in hexadecimal.
inline constexpr std::size_t kTokenDigits = 64;
Result<std::string> NewToken();
bool IsToken(std::string_view text);

/// The token of this file. If the file is missing, is accessible to other users, or holds no token, it is replaced by a
/// file with a new token and mode 0600. Processes that find no file at the same time get the same token.
Result<std::string> KeepToken(const std::string& path);

}  // namespace weir::dashboard
