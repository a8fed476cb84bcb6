// SPDX-License-Identifier: Apache-2.0
// The manager's audit log: a line of JSON for each request that changes something or is refused. A full file is renamed
// to FILE.1, which replaces the one before.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "http/message.h"
#include "platform/fd.h"

namespace weir::cluster {

class AuditLog {
 public:
  static constexpr std::uint64_t kBytesMax = 64 << 20;

  /// Appends to the file, which only its owner can read; makes it if it is missing.
  static Result<AuditLog> Open(std::string path, std::uint64_t bytes_max = kBytesMax);

  /// An error is printed once; requests are answered in any case.
  void Add(std::int64_t unix_time_s, const http::Request& request, unsigned status);

 private:
  AuditLog(std::string path, platform::Fd file, std::uint64_t bytes, std::uint64_t bytes_max)
      : path_(std::move(path)), file_(std::move(file)), bytes_(bytes), bytes_max_(bytes_max) {}
  Status Append(const std::string& line);

  std::string path_;
  platform::Fd file_;
  std::uint64_t bytes_, bytes_max_;
  bool failed_ = false;
};

}  // namespace weir::cluster
