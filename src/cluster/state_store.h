// SPDX-License-Identifier: Apache-2.0
// What a cluster's managers share and what must outlive them: records, and the lead, which is the right to write them.
// Calls block, for a few times kCallMax at most, and may come from several threads. Page: docs/cluster.md
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::cluster {

struct Entry {
  std::string key, value;
};
/// One record as it is from now on; none: removed.
struct Change {
  std::string key;
  std::optional<std::string> value;
};

struct Leader {
  std::string holder;       // where it answers: HOST:PORT
  std::uint64_t fence = 0;  // greater with every lead that is taken
};
/// Held by who leads.
struct Lead {
  std::uint64_t fence = 0;
  std::int64_t lease = 0;
};

/// A lead that is not kept for so long is over.
inline constexpr Duration kLeadTtl = seconds(3);
inline constexpr std::string_view kLeaderKey = "weir/leader";
/// Records' keys begin with this; the leader's doesn't.
inline constexpr std::string_view kRecordPrefix = "weir/record/";
/// Of one Write.
inline constexpr std::size_t kChangesMax = 100;
inline constexpr std::size_t kChangeBytesMax = 1'000'000;

class StateStore {
 public:
  virtual ~StateStore() = default;
  /// None: nobody.
  virtual Result<std::optional<Leader>> WhoLeads() = 0;
  /// Takes the lead if `instead_of` still has it (none: if nobody has). kBusy: somebody else was quicker.
  virtual Result<Lead> TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) = 0;
  /// kNotFound: it is over.
  virtual Status KeepLead(const Lead& lead) = 0;
  /// So that another need not wait for its end.
  virtual void GiveUpLead(const Lead& lead) = 0;
  /// All records, ascending by key.
  virtual Result<std::vector<Entry>> Read() = 0;
  /// All changes or none, and none unless the lead is held. kBusy: it is not. After any other error it is not known
  /// whether they were made; the same may be written again.
  virtual Status Write(const Lead& lead, std::span<const Change> changes) = 0;
};

}  // namespace weir::cluster
