// SPDX-License-Identifier: Apache-2.0
// The state that a cluster's managers share and that outlives them: records, and the lead, which is the right to write
// records. Calls block for a few times kCallMax at most and are thread-safe. Page: docs/cluster.md
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
/// The new value of one record; empty: the record is removed.
struct Change {
  std::string key;
  std::optional<std::string> value;
};

struct Leader {
  std::string holder;       // HOST:PORT of the leading manager
  std::uint64_t fence = 0;  // increases with every change of the lead
};
/// The leader's proof that it holds the lead.
struct Lead {
  std::uint64_t fence = 0;
  std::int64_t lease = 0;
};

/// The lead ends if it is not renewed for this long.
inline constexpr Duration kLeadTtl = seconds(3);
inline constexpr std::string_view kLeaderKey = "weir/leader";
/// The prefix of the records' keys; the leader's key does not have it.
inline constexpr std::string_view kRecordPrefix = "weir/record/";
/// Limits of one Write.
inline constexpr std::size_t kChangesMax = 100;
inline constexpr std::size_t kChangeBytesMax = 1'000'000;

class StateStore {
 public:
  virtual ~StateStore() = default;
  /// Empty: no manager leads.
  virtual Result<std::optional<Leader>> WhoLeads() = 0;
  /// Takes the lead from `instead_of` if that manager still has it (empty: if no manager has it). kBusy: another
  /// manager has taken it first.
  virtual Result<Lead> TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) = 0;
  /// Renews the lead. kNotFound: it has ended.
  virtual Status KeepLead(const Lead& lead) = 0;
  /// Ends the lead at once, so that another manager need not wait for its expiry.
  virtual void GiveUpLead(const Lead& lead) = 0;
  /// All records, ascending by key.
  virtual Result<std::vector<Entry>> Read() = 0;
  /// Makes all changes or none, and none unless the lead is held. kBusy: the lead is not held. After any other error it
  /// is unknown whether the changes were made; the same changes may be written again.
  virtual Status Write(const Lead& lead, std::span<const Change> changes) = 0;
};

}  // namespace weir::cluster
