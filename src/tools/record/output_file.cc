// SPDX-License-Identifier: Apache-2.0
#include "tools/record/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/common/text_units.h"

namespace weir::cli {

Result<OutputFile> OutputFile::Make(const std::string& path) {
  const bool standard = path == "-";
  platform::Fd fd(standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                           : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd) return OutputFile(standard ? "the standard output" : path, std::move(fd));
  const Errc code = errno == ENOENT                     ? Errc::kNotFound
                    : errno == EACCES || errno == EPERM ? Errc::kPermissionDenied
                                                        : Errc::kIo;
  return Fail(code, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

Error OutputFile::Failed(int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Fail(full ? Errc::kResourceExhausted : Errc::kIo,
              fmt::format("cannot write {} any further: {}; it holds what was recorded until then ({} bytes){}", path_,
                          std::strerror(error), written_, full ? "; make room and record again" : ""));
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(errno);
    written_ += static_cast<std::size_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return Ok();
}

Status OutputFile::Close() {
  const int fd = fd_.Release();
  if (fd >= 0 && close(fd) != 0 && errno != EINTR) return Failed(errno);
  return Ok();
}

}  // namespace weir::cli
