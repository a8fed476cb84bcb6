// SPDX-License-Identifier: Apache-2.0
// A disk in memory for tests of what survives a failure. Data is durable once its file was synced, a name once its
// folder was. A call can be made to fail, and the power can be cut at a call. As on Linux, a failed fsync drops the
// data: a second fsync of the same descriptor succeeds without it.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "platform/file_calls.h"

namespace weir::testing {

struct PowerCut {};

class FakeDisk final : public platform::FileCalls {
 public:
  /// The call with number `n`, from 0, and its fault. Only calls that change something are counted.
  struct Fault {
    std::size_t at = 0;
    int error = 0;  // 0: the power is cut there, by an exception
  };

  void Break(std::optional<Fault> fault) {
    fault_ = fault;
    calls_ = 0;
  }
  /// Calls since Break.
  [[nodiscard]] std::size_t calls() const { return calls_; }

  /// The disk after a power cut: durable data, and any part of the rest that a disk may have written.
  void Restart(Prng& prng) {
    fault_.reset();
    open_.clear();
    Names names = durable_names_;
    const auto applied = static_cast<std::size_t>(prng.Between(0, static_cast<std::int64_t>(later_.size())));
    for (std::size_t i = 0; i < applied; ++i) later_[i](names);
    later_.clear();
    for (auto& [name, file] : names) {
      std::string mixed = file->durable;
      const std::size_t written = file->now.size();
      const auto [least, most] = std::minmax({written, mixed.size()});
      mixed.resize(static_cast<std::size_t>(prng.Between(least, most)), '\0');
      for (std::size_t block = 0; block < mixed.size(); block += kBlock) {
        if (prng.Between(0, 1) == 0 || block >= written) continue;
        const std::size_t size = std::min({kBlock, written - block, mixed.size() - block});
        mixed.replace(block, size, file->now, block, size);
      }
      if (file->now == file->durable) mixed = file->now;
      file->now = file->durable = mixed;
      file->lost.clear();
    }
    names_ = durable_names_ = names;
  }
  /// The content of a file, for tests that damage it.
  [[nodiscard]] bool Has(const std::string& path) const { return names_.contains(path); }
  std::string& Content(const std::string& path) { return names_.at(path)->now; }

  int Open(const char* path, int flags, mode_t) override {
    if ((flags & O_DIRECTORY) != 0) return Keep({.folder = true, .file = nullptr, .at = 0});
    const auto found = names_.find(path);
    if (found == names_.end() && (flags & O_CREAT) == 0) return Error(ENOENT);
    if (found != names_.end() && (flags & O_EXCL) != 0) return Error(EEXIST);
    if ((flags & (O_CREAT | O_TRUNC)) != 0) {
      if (const int error = Count()) return Error(error);
      if (found == names_.end()) {
        const Inode made = std::make_shared<File>();
        ChangeNames([name = std::string(path), made](auto& names) { names[name] = made; });
      } else if ((flags & O_TRUNC) != 0) {
        found->second->now.clear();
        found->second->lost.clear();
      }
    }
    return Keep({.folder = false, .file = names_.at(path), .at = 0});
  }
  ssize_t Read(int fd, void* into, std::size_t bytes) override {
    Opened& opened = open_.at(fd);
    const std::size_t size = std::min(bytes, opened.file->now.size() - opened.at);
    std::memcpy(into, opened.file->now.data() + opened.at, size);
    opened.at += size;
    return static_cast<ssize_t>(size);
  }
  /// Appends. A write that is interrupted by a power cut or a full disk has written half.
  ssize_t Write(int fd, const void* from, std::size_t bytes) override {
    std::string& now = open_.at(fd).file->now;
    const std::string_view data(static_cast<const char*>(from), bytes);
    if (fault_ && fault_->at == calls_) now.append(data.substr(0, bytes / 2));
    if (const int error = Count()) return Error(error);
    now.append(data);
    return static_cast<ssize_t>(bytes);
  }
  int Fsync(int fd) override {
    Opened& opened = open_.at(fd);
    if (opened.folder) {
      if (const int error = Count()) return Error(error);
      later_.clear();
      durable_names_ = names_;
      return 0;
    }
    if (const int error = Count()) {
      opened.file->lost.emplace_back(opened.file->durable.size(), opened.file->now.size());
      return Error(error);
    }
    opened.file->durable = opened.file->now;
    // Data that a failed fsync has dropped counts as clean in the kernel and is not written again.
    for (const auto& [from, to] : opened.file->lost)
      for (std::size_t i = from; i < to; ++i) opened.file->durable[i] = '\0';
    return 0;
  }
  int Fdatasync(int fd) override { return Fsync(fd); }
  int Rename(const char* from, const char* to) override {
    if (!names_.contains(from)) return Error(ENOENT);
    if (const int error = Count()) return Error(error);
    ChangeNames([a = std::string(from), b = std::string(to)](auto& names) {
      const auto found = names.find(a);
      if (found == names.end()) return;
      names[b] = found->second;
      names.erase(a);
    });
    return 0;
  }
  int Link(const char* from, const char* to) override {
    if (!names_.contains(from)) return Error(ENOENT);
    if (names_.contains(to)) return Error(EEXIST);
    if (const int error = Count()) return Error(error);
    ChangeNames([a = std::string(from), b = std::string(to)](auto& names) {
      if (const auto found = names.find(a); found != names.end()) names[b] = found->second;
    });
    return 0;
  }
  int Unlink(const char* path) override {
    if (!names_.contains(path)) return Error(ENOENT);
    if (const int error = Count()) return Error(error);
    ChangeNames([name = std::string(path)](auto& names) { names.erase(name); });
    return 0;
  }
  int Close(int fd) override {
    open_.erase(fd);
    return 0;
  }

 private:
  static constexpr std::size_t kBlock = 64;  // smaller than a disk's, so that small files are torn too
  struct File {
    std::string now, durable;
    std::vector<std::pair<std::size_t, std::size_t>> lost{};  // from, to: dropped by a failed fsync
  };
  using Inode = std::shared_ptr<File>;
  using Names = std::map<std::string, Inode>;
  struct Opened {
    bool folder;
    Inode file;
    std::size_t at;
  };

  int Keep(Opened opened) {
    open_[next_] = std::move(opened);
    return next_++;
  }
  static int Error(int error) {
    errno = error;
    return -1;
  }
  int Count() {
    const std::size_t number = calls_++;
    const bool now = fault_ && fault_->at == number;
    if (now && fault_->error == 0) throw PowerCut{};
    return now ? fault_->error : 0;
  }
  void ChangeNames(std::function<void(Names&)> change) {
    change(names_);
    later_.push_back(std::move(change));
  }

  std::optional<Fault> fault_;
  std::size_t calls_ = 0;
  int next_ = 1'000'000;  // not a real descriptor of the process
  std::map<int, Opened> open_;
  Names names_, durable_names_;
  std::vector<std::function<void(Names&)>> later_;  // changes of names since the folder's last sync
};

}  // namespace weir::testing
