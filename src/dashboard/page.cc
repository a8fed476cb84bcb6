// SPDX-License-Identifier: Apache-2.0
#include "dashboard/page.h"

#include <algorithm>
#include <array>

#include "dashboard/page_files.h"

namespace weir::dashboard {

const PageFile* FindPage(std::string_view path) {
  static const std::array kPages{
      PageFile{"/", "text/html; charset=utf-8", page_files::IndexHtml()},
      PageFile{"/app.js", "text/javascript; charset=utf-8", page_files::AppJs()},
      PageFile{"/app.css", "text/css; charset=utf-8", page_files::AppCss()},
      PageFile{"/icon.svg", "image/svg+xml", page_files::IconSvg()},
  };
  const auto found = std::ranges::find(kPages, path, &PageFile::path);
  return found == kPages.end() ? nullptr : &*found;
}

}  // namespace weir::dashboard
