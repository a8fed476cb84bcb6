// SPDX-License-Identifier: Apache-2.0
// Files that a client's program includes, laid out in a folder of their own for the driver's compiler to find. Gone
// with the object.
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

  /// `name` as the program includes it, "../common/types.h" among them. kInvalidArgument: a name that leads out of the
  /// folder, or is absolute.
  Status Add(std::string_view name, proto::cl::ByteView content);
  /// Where #include is to look.
  [[nodiscard]] std::string include_path() const;

 private:
  explicit HeaderFolder(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

}  // namespace weir::opencl
