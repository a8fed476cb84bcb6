// SPDX-License-Identifier: Apache-2.0
// The state of a cluster with one manager: in memory, and in a journal if it is to outlive the process. Each Write is
// one line, synced before it counts; a line that was torn off is as if it had never been written.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "cluster/state_store.h"
#include "platform/fd.h"

namespace weir::cluster {

class MemoryStore final : public StateStore {
 public:
  MemoryStore() = default;
  /// Reads `path`, or begins it. kBusy: another manager has it open. kProtocol: a line other than the last makes no
  /// sense.
  static Result<std::unique_ptr<MemoryStore>> Open(const std::string& path);

  Result<std::optional<Leader>> WhoLeads() override;
  Result<Lead> TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) override;
  Status KeepLead(const Lead& lead) override;
  void GiveUpLead(const Lead& lead) override;
  Result<std::vector<Entry>> Read() override;
  Status Write(const Lead& lead, std::span<const Change> changes) override;

 private:
  Status Load();
  /// The journal with no more lines than there are records.
  Status Rewrite();
  Status Append(const std::string& line);

  std::mutex mutex_;
  std::string path_;  // empty: only in memory
  platform::Fd lock_, journal_;
  std::size_t lines_ = 0;
  std::uint64_t fence_ = 0;
  std::optional<Leader> leader_;
  std::map<std::string, std::string> records_;
};

}  // namespace weir::cluster
