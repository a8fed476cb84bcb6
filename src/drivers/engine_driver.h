// SPDX-License-Identifier: Apache-2.0
// The interface to an external engine that grants vGPUs: OpenStack Placement, Slurm, or the engine in memory that
// serves as their reference. A device is divided into shares, and a vGPU is sold as a number of them. Page:
// docs/engines.md
//
// Invariant of all engines: lowering the sellable shares below the used ones evicts nothing and stops new grants.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::drivers {

inline constexpr std::int64_t kSharesMax = 10'000;  // for one device

/// The engine's grant to one of its consumers (a server, a job).
struct Grant {
  std::string consumer = {};      // letters, digits and '-': the engine's id
  std::int64_t shares = 0;        // at least 1
  std::optional<uid_t> uid = {};  // user of its programs, if the engine knows it
  friend bool operator==(const Grant&, const Grant&) = default;
};

/// The engine's view of a device.
struct Usage {
  std::int64_t sellable = 0;                                             // as the last SetSellable left it
  std::int64_t sellable_max = std::numeric_limits<std::int64_t>::max();  // upper bound that the engine can store
  std::vector<Grant> grants = {};                                        // by consumer
  [[nodiscard]] std::int64_t used() const;
};

/// One engine. Each call blocks for seconds at most and is idempotent.
/// Errors: kNotFound       the device is not published, or no longer
///         kUnavailable, kTimeout, kBusy   try again later
///         kPermissionDenied, kInvalidArgument, kProtocol   a person must correct something
class EngineDriver {
 public:
  virtual ~EngineDriver() = default;
  /// Registers the device with its physical shares. The sellable shares of a known device are unchanged; a new one has
  /// none.
  virtual Status Publish(const std::string& gpu, std::int64_t shares) = 0;
  /// New grants are made while the sum of all grants is at most `shares`.
  virtual Status SetSellable(const std::string& gpu, std::int64_t shares) = 0;
  virtual Result<Usage> ReadUsage(const std::string& gpu) = 0;
};

/// The grants and releases between two readings, for callers that poll. A changed number of shares is a release and a
/// grant.
struct GrantChanges {
  std::vector<Grant> granted;
  std::vector<Grant> released;
};
GrantChanges CompareGrants(const std::vector<Grant>& before, const std::vector<Grant>& after);

}  // namespace weir::drivers
