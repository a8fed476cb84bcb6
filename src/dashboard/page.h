// SPDX-License-Identifier: Apache-2.0
// The files of the page (web/dist), which are compiled into the program.
#pragma once

#include <string_view>

namespace weir::dashboard {

struct PageFile {
  std::string_view path;  // of the request
  std::string_view content_type;
  std::string_view content;
};

/// Null: no file has this path. "/" is index.html.
const PageFile* FindPage(std::string_view path);

}  // namespace weir::dashboard
