// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/header_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "platform/fd.h"

namespace weir::opencl {
namespace {

namespace fs = std::filesystem;

/// The include path is this deep, so that names may contain as many "..".
constexpr const char* kDepth = "a/b/c/d/e/f/g/h";

}  // namespace

Result<HeaderFolder> HeaderFolder::Make() {
  std::error_code error;
  std::string root = (fs::temp_directory_path(error) / "weir-headers-XXXXXX").string();
  if (error || ::mkdtemp(root.data()) == nullptr) return platform::ErrnoError("making a folder for headers", errno);
  HeaderFolder folder(root);
  fs::create_directories(folder.include_path(), error);
  if (error) return Fail(Errc::kIo, "making " + folder.include_path() + ": " + error.message());
  return folder;
}

HeaderFolder::~HeaderFolder() {
  std::error_code error;
  if (!root_.empty()) fs::remove_all(root_, error);
}

std::string HeaderFolder::include_path() const { return root_ + "/" + kDepth; }

Status HeaderFolder::Add(std::string_view name, proto::cl::ByteView content) {
  const fs::path relative(name);
  const fs::path path = (fs::path(include_path()) / relative).lexically_normal();
  const std::string inside = root_ + "/";
  if (name.empty() || relative.is_absolute() || name.find('\0') != std::string_view::npos ||
      path.string().compare(0, inside.size(), inside) != 0)
    return Fail(Errc::kInvalidArgument, "a header can't be named '" + std::string(name) + "'");
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) return Fail(Errc::kIo, "writing the header " + std::string(name));
  return Ok();
}

}  // namespace weir::opencl
