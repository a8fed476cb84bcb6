// SPDX-License-Identifier: Apache-2.0
// A folder for one test, removed at its end. Its path is short enough for sockets.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace weir::testing {

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/weir-test-XXXXXX";
    WEIR_CHECK(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace weir::testing
