// SPDX-License-Identifier: Apache-2.0
#include "platform/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "platform/fd.h"
#include "platform/file_calls.h"

namespace weir::platform {
namespace {

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

const char* Environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  return ReplaceDurably(FileCalls::System(), path, content);
}

Status ReplaceFile(const std::string& path, std::string_view content) {
  const std::string beside = path + ".new";
  const Fd fd(MakeAnew(FileCalls::System(), beside));
  if (!fd) return ErrnoError("making " + beside, errno);
  Status status = WriteAll(FileCalls::System(), fd.get(), content, beside);
  if (status && ::fchmod(fd.get(), 0644) != 0) status = ErrnoError("opening " + beside + " for every user", errno);
  if (status && ::rename(beside.c_str(), path.c_str()) != 0)
    status = ErrnoError("renaming " + beside + " to " + path, errno);
  if (!status) ::unlink(beside.c_str());
  return status;
}

Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max) {
  return ReadFile(FileCalls::System(), path, bytes_max);
}

Status MakeFolder(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) == 0) return Ok();
  if (errno == ENOENT && path.rfind('/') != std::string::npos && path.rfind('/') != 0) {
    WEIR_TRY_STATUS(MakeFolder(FolderOf(path), 0755));
    if (::mkdir(path.c_str(), mode) == 0) return Ok();
  }
  if (errno != EEXIST) return ErrnoError("making the folder " + path, errno);
  return CheckFolder(path, mode);
}

Status CheckFolder(const std::string& path, unsigned mode) {
  // The parent folder may be writable for every user, as in /tmp/weir-1000: a link there could lead anywhere.
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return ErrnoError("looking at " + path, errno);
  if (S_ISLNK(info.st_mode)) {
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
      return Fail(Errc::kPermissionDenied,
                  path + " is a link that user " + std::to_string(info.st_uid) + " has made; it is not followed");
    if (::stat(path.c_str(), &info) != 0) return ErrnoError("stat " + path, errno);
  }
  if (!S_ISDIR(info.st_mode)) return Fail(Errc::kAlreadyExists, path + " exists and is not a folder");
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return Fail(Errc::kPermissionDenied,
                path + " belongs to user " + std::to_string(info.st_uid) + ", not to this one; it is not used");
  const mode_t unwanted = S_IWOTH | ((mode & 077) == 0 ? S_IWGRP : 0);
  if ((info.st_mode & unwanted & ~mode) != 0 && (info.st_mode & S_ISVTX) == 0)
    return Fail(Errc::kPermissionDenied, path + " can be written by other users; it is not used: chmod go-w " + path);
  return Ok();
}

std::string DefaultRunDir() {
  if (const char* given = Environment("WEIR_RUN_DIR")) return given;
  if (::geteuid() == 0) return "/run/weir";
  if (const char* runtime = Environment("XDG_RUNTIME_DIR")) return std::string(runtime) + "/weir";
  return "/tmp/weir-" + std::to_string(::geteuid());
}

std::string DefaultStateDir() {
  if (const char* given = Environment("WEIR_STATE_DIR")) return given;
  if (::geteuid() == 0) return "/var/lib/weir";
  if (const char* state = Environment("XDG_STATE_HOME")) return std::string(state) + "/weir";
  if (const char* home = Environment("HOME")) return std::string(home) + "/.local/state/weir";
  return DefaultRunDir() + "/state";
}

}  // namespace weir::platform
