// SPDX-License-Identifier: Apache-2.0
// Text for HTML pages.
#pragma once

#include <string>
#include <string_view>

namespace weir::cli {

/// Escapes text for HTML and attributes.
std::string EscapeHtml(std::string_view text);

}  // namespace weir::cli
