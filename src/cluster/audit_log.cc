// SPDX-License-Identifier: Apache-2.0
#include "cluster/audit_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace weir::cluster {
namespace {

constexpr std::size_t kPathBytesMax = 512;

Result<platform::Fd> OpenLog(const std::string& path) {
  platform::Fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return platform::ErrnoError("opening the audit log " + path, errno);
  return file;
}

std::string TimeOf(std::int64_t unix_time_s) {
  const std::time_t time = unix_time_s;
  std::tm parts{};
  char text[32];
  if (::gmtime_r(&time, &parts) == nullptr) return "?";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

Result<AuditLog> AuditLog::Open(std::string path, std::uint64_t bytes_max) {
  WEIR_TRY(platform::Fd file, OpenLog(path));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return platform::ErrnoError("opening the audit log " + path, errno);
  return AuditLog(std::move(path), std::move(file), static_cast<std::uint64_t>(info.st_size), bytes_max);
}

void AuditLog::Add(std::int64_t unix_time_s, const http::Request& request, unsigned status) {
  const nlohmann::ordered_json entry{{"time", TimeOf(unix_time_s)},
                                     {"role", request.holder.role},
                                     {"name", request.holder.name},
                                     {"from", request.holder.address},
                                     {"method", request.method},
                                     {"path", request.path.substr(0, kPathBytesMax)},
                                     {"status", status}};
  const std::string line = entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const Status written = Append(line);
  if (!written && !failed_)
    std::fprintf(stderr, "weir-manager: the audit log is incomplete: %s\n", written.error().message.c_str());
  failed_ = !written;
}

Status AuditLog::Append(const std::string& line) {
  if (bytes_ + line.size() > bytes_max_ && bytes_ > 0) {
    if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) return platform::ErrnoError("renaming " + path_, errno);
    WEIR_TRY(file_, OpenLog(path_));
    bytes_ = 0;
  }
  const ssize_t written = ::write(file_.get(), line.data(), line.size());
  if (written < 0) return platform::ErrnoError("writing " + path_, errno);
  bytes_ += static_cast<std::uint64_t>(written);
  if (static_cast<std::size_t>(written) != line.size())
    return Fail(Errc::kResourceExhausted, path_ + " has a line that is cut: the disk is full");
  return Ok();
}

}  // namespace weir::cluster
