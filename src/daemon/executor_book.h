// SPDX-License-Identifier: Apache-2.0
// Which processes are executors of a vGPU: those that a daemon has started. A file in the run folder keeps their pids
// and start times, so that the next daemon knows the executors of this one, and takes no other process for one of them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weir::daemon {

class ExecutorBook {
 public:
  /// Processes that have ended are left out. More than this many living executors of one vGPU are not kept.
  static constexpr std::size_t kEntriesMax = 64;

  /// `path`: a file that only the daemon's user can write. A file that can't be read has no entries.
  explicit ExecutorBook(std::string path) : path_(std::move(path)) {}

  /// Notes a child of this process that was not reaped. False: the file can't be written, and the next daemon will not
  /// know the process.
  bool Add(pid_t pid);
  [[nodiscard]] bool Has(pid_t pid) const;
  /// Removes the file: the vGPU is removed.
  void Clear();

 private:
  struct Entry {
    pid_t pid = 0;
    std::uint64_t start = 0;
  };
  [[nodiscard]] std::vector<Entry> Living() const;

  const std::string path_;
};

}  // namespace weir::daemon
