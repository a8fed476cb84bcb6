// SPDX-License-Identifier: Apache-2.0
// The system calls that write state to the disk, behind an interface, and functions that replace files with them. Tests
// use a disk that fails, is full, or loses power between any two calls.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace weir::platform {

/// Like the system calls of the same names: -1 and errno on failure.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int Open(const char* path, int flags, mode_t mode);
  virtual ssize_t Read(int fd, void* into, std::size_t bytes);
  virtual ssize_t Write(int fd, const void* from, std::size_t bytes);
  virtual int Fsync(int fd);
  virtual int Fdatasync(int fd);
  virtual int Rename(const char* from, const char* to);
  virtual int Link(const char* from, const char* to);
  virtual int Unlink(const char* path);
  virtual int Close(int fd);

  /// The calls of the operating system.
  static FileCalls& System();
};

/// Owns a descriptor that `calls` has opened, and closes it through `calls`.
class CalledFd {
 public:
  CalledFd() = default;
  CalledFd(FileCalls& calls, int fd) : calls_(&calls), fd_(fd) {}
  CalledFd(CalledFd&& other) noexcept : calls_(other.calls_), fd_(std::exchange(other.fd_, -1)) {}
  CalledFd& operator=(CalledFd&& other) noexcept {
    std::swap(calls_, other.calls_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  CalledFd(const CalledFd&) = delete;
  CalledFd& operator=(const CalledFd&) = delete;
  ~CalledFd() {
    if (fd_ >= 0) calls_->Close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  FileCalls* calls_ = nullptr;
  int fd_ = -1;
};

/// Makes the file for writing, with mode 0600. A file that has this name is removed first: another user may have made
/// it, and would read what is written to it. -1 and errno on failure.
int MakeAnew(FileCalls& calls, const std::string& path);

/// Writes the whole content to `fd`. `path`: named in an error.
Status WriteAll(FileCalls& calls, int fd, std::string_view content, const std::string& path);
/// What is left to read of `fd`. kResourceExhausted: longer than `bytes_max`. `path`: named in an error.
Result<std::string> ReadAll(FileCalls& calls, int fd, std::size_t bytes_max, const std::string& path);

/// kNotFound; kResourceExhausted: longer than `bytes_max`.
Result<std::string> ReadFile(FileCalls& calls, const std::string& path, std::size_t bytes_max);

/// Writes `content` to PATH.new, syncs it, renames it to `path` and syncs the folder. Readers see either the old
/// content or the new one, also after a crash. After success a crash can't lose the new content; after an error the
/// file holds one of the two contents, complete. A failed sync is never repeated on the same data: a further call
/// writes everything again. `previous`: the name under which the replaced content is kept; empty: it is not kept.
Status ReplaceDurably(FileCalls& calls, const std::string& path, std::string_view content,
                      const std::string& previous = {});

}  // namespace weir::platform
