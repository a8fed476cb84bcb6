// SPDX-License-Identifier: Apache-2.0
#include "platform/file_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "platform/fd.h"

namespace weir::platform {
namespace {

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Keeps the content of `path` as `previous`. A file named `path` exists at every moment. On a file system without hard
/// links the content is not kept.
void KeepPrevious(FileCalls& calls, const std::string& path, const std::string& previous) {
  const std::string beside = previous + ".new";
  calls.Unlink(beside.c_str());
  if (calls.Link(path.c_str(), beside.c_str()) != 0) return;
  if (calls.Rename(beside.c_str(), previous.c_str()) != 0) calls.Unlink(beside.c_str());
}

Status SyncFolderOf(FileCalls& calls, const std::string& path) {
  const std::string folder = ParentOf(path);
  const CalledFd fd(calls, calls.Open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (!fd) return Ok();  // a folder that may be written but not read can't be synced
  if (calls.Fsync(fd.get()) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) return Ok();
  return ErrnoError("syncing " + folder, errno);
}

}  // namespace

int FileCalls::Open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileCalls::Read(int fd, void* into, std::size_t bytes) { return ::read(fd, into, bytes); }
ssize_t FileCalls::Write(int fd, const void* from, std::size_t bytes) { return ::write(fd, from, bytes); }
int FileCalls::Fsync(int fd) { return ::fsync(fd); }
int FileCalls::Fdatasync(int fd) { return ::fdatasync(fd); }
int FileCalls::Rename(const char* from, const char* to) { return ::rename(from, to); }
int FileCalls::Link(const char* from, const char* to) { return ::link(from, to); }
int FileCalls::Unlink(const char* path) { return ::unlink(path); }
int FileCalls::Close(int fd) { return ::close(fd); }

FileCalls& FileCalls::System() {
  static FileCalls calls;
  return calls;
}

int MakeAnew(FileCalls& calls, const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;  // with O_EXCL no link is followed
  const int fd = calls.Open(path.c_str(), kFlags, 0600);
  if (fd >= 0 || errno != EEXIST || calls.Unlink(path.c_str()) != 0) return fd;
  return calls.Open(path.c_str(), kFlags, 0600);
}

Status WriteAll(FileCalls& calls, int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = calls.Write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError("writing " + path, errno);
    if (written == 0) return ErrnoError("writing " + path, ENOSPC);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return Ok();
}

Result<std::string> ReadFile(FileCalls& calls, const std::string& path, std::size_t bytes_max) {
  const CalledFd fd(calls, calls.Open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!fd) return ErrnoError("opening " + path, errno);
  return ReadAll(calls, fd.get(), bytes_max, path);
}

Result<std::string> ReadAll(FileCalls& calls, int fd, std::size_t bytes_max, const std::string& path) {
  std::string content;
  char block[16384];
  for (;;) {
    const ssize_t got = calls.Read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("reading " + path, errno);
    if (got == 0) return content;
    content.append(block, static_cast<std::size_t>(got));
    if (content.size() > bytes_max)
      return Fail(Errc::kResourceExhausted, path + " is longer than " + std::to_string(bytes_max) + " bytes");
  }
}

Status ReplaceDurably(FileCalls& calls, const std::string& path, std::string_view content,
                      const std::string& previous) {
  const std::string beside = path + ".new";
  Status status = Ok();
  {
    const CalledFd fd(calls, MakeAnew(calls, beside));
    if (!fd) return ErrnoError("making " + beside, errno);
    status = WriteAll(calls, fd.get(), content, beside);
    if (status && calls.Fsync(fd.get()) != 0) status = ErrnoError("syncing " + beside, errno);
  }
  if (status && !previous.empty()) KeepPrevious(calls, path, previous);
  if (status && calls.Rename(beside.c_str(), path.c_str()) != 0)
    status = ErrnoError("renaming " + beside + " to " + path, errno);
  if (!status) {
    calls.Unlink(beside.c_str());
    return status;
  }
  return SyncFolderOf(calls, path);
}

}  // namespace weir::platform
