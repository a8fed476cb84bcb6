// SPDX-License-Identifier: Apache-2.0
// A file that grows during a recording. Written data stays in the file even if a later write fails.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/fd.h"

namespace weir::cli {

class OutputFile {
 public:
  /// Replaces the file at `path`. "-": the standard output.
  static Result<OutputFile> Make(const std::string& path);

  /// kResourceExhausted on a full disk, kIo otherwise; the message says how much the file holds.
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }
  Status Write(std::span<const std::byte> bytes);
  /// Closes the file. An error may appear only now, for example with a quota or on a network file system.
  Status Close();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::size_t written() const { return written_; }

 private:
  OutputFile(std::string path, platform::Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Error Failed(int error) const;

  std::string path_;
  platform::Fd fd_;
  std::size_t written_ = 0;
};

}  // namespace weir::cli
