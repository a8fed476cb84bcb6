// SPDX-License-Identifier: Apache-2.0
// The contents of the files in web/dist. cmake/EmbedFiles.cmake writes the definitions.
#pragma once

#include <string_view>

namespace weir::dashboard::page_files {

std::string_view IndexHtml();
std::string_view AppJs();
std::string_view AppCss();
std::string_view IconSvg();

}  // namespace weir::dashboard::page_files
