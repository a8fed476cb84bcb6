// SPDX-License-Identifier: Apache-2.0
// A folder with the files that a client's program includes, for the driver's compiler. Removed by the destructor.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "proto/opencl_codec.h"

namespace weir::opencl {

class HeaderFolder {
 public:
  static Result<HeaderFolder> Make();
  HeaderFolder(HeaderFolder&& other) noexcept : root_(std::exchange(other.root_, {})) {}
  HeaderFolder& operator=(HeaderFolder&& other) noexcept {
    std::swap(root_, other.root_);
    return *this;
  }
  ~HeaderFolder();

  /// `name` as the program includes it, which may be "../common/types.h". kInvalidArgument: the name is absolute or
  /// leads out of the folder.
  Status Add(std::string_view name, proto::cl::ByteView content);
  /// The include path for the compiler.
  [[nodiscard]] std::string include_path() const;

 private:
  explicit HeaderFolder(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

}  // namespace weir::opencl
