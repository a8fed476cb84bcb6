// SPDX-License-Identifier: Apache-2.0
// The state of a cluster with one manager: in memory, and in a journal if it must outlive the process. Each Write
// appends one line to the journal and is confirmed once the line is synced.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "cluster/state_journal.h"
#include "cluster/state_store.h"
#include "platform/fd.h"
#include "platform/file_calls.h"

namespace weir::cluster {

class MemoryStore final : public StateStore {
 public:
  MemoryStore() = default;
  /// Reads `path` or creates it. kBusy: another manager has it open. kProtocol, kVersionMismatch: it can't be read; the
  /// message says how to recover. A torn last record is removed and kept in PATH.torn.
  static Result<std::unique_ptr<MemoryStore>> Open(const std::string& path,
                                                   platform::FileCalls& calls = platform::FileCalls::System());

  Result<std::optional<Leader>> WhoLeads() override;
  Result<Lead> TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) override;
  Status KeepLead(const Lead& lead) override;
  void GiveUpLead(const Lead& lead) override;
  Result<std::vector<Entry>> Read() override;
  Status Write(const Lead& lead, std::span<const Change> changes) override;

 private:
  Status Load();
  /// Writes all records and `changes` to a new file that replaces the journal.
  Status Rewrite(std::uint64_t fence, std::span<const Change> changes);
  /// Appends a line. After a failure the line's state on the disk is unknown, so the next call rewrites the journal: a
  /// failed sync is never repeated on the same file.
  Status Append(std::uint64_t fence, std::span<const Change> changes);

  std::mutex mutex_;
  std::string path_;  // empty: no journal
  platform::FileCalls* calls_ = &platform::FileCalls::System();
  platform::Fd lock_;
  platform::CalledFd journal_;  // invalid: the journal must be rewritten
  JournalWriter writer_;
  std::size_t lines_ = 0, bytes_ = 0;  // of the journal
  std::size_t rewritten_bytes_ = 0;    // its size after the last rewrite
  std::uint64_t fence_ = 0;            // number of the last write
  std::optional<Leader> leader_;
  std::map<std::string, std::string> records_;
};

}  // namespace weir::cluster
