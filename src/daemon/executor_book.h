// SPDX-License-Identifier: Apache-2.0
// The processes that a daemon has started as executors of one vGPU. A file in the run folder keeps their pids and start
// times. The next daemon thus recognises the executors of this one and mistakes no other process for one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weir::daemon {

class ExecutorBook {
 public:
  /// Upper bound of the living executors that the file keeps for one vGPU; beyond it the oldest one is forgotten. Ended
  /// processes are dropped.
  static constexpr std::size_t kEntriesMax = 64;

  /// `path`: a file that only the daemon's user can write. An unreadable file counts as empty.
  explicit ExecutorBook(std::string path) : path_(std::move(path)) {}

  /// Records a child of this process that has not been reaped. False: the file can't be written, so the next daemon
  /// will not recognise the process.
  bool Add(pid_t pid);
  [[nodiscard]] bool Has(pid_t pid) const;
  /// Sends `signal` to the living ones, those of earlier daemons included, and to no other process.
  void Signal(int signal) const;
  /// Removes the file. Called when the vGPU is removed.
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
