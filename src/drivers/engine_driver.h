// SPDX-License-Identifier: Apache-2.0
// What Weir asks of an engine that hands vGPUs out: OpenStack Placement, Slurm, or the one in memory that the others
// are measured by. A vGPU is sold in shares; a device has so many. Page: docs/engines.md
//
// The law of all of them: lowering what is sellable below what is used never evicts, it stops new grants.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::drivers {

inline constexpr std::int64_t kSharesMax = 10'000;  // of a device

/// What the engine has given to one of its consumers (a server, a job).
struct Grant {
  std::string consumer = {};      // letters, digits and '-': the engine's id
  std::int64_t shares = 0;        // 1 or more
  std::optional<uid_t> uid = {};  // who its programs run as, where the engine says so
  friend bool operator==(const Grant&, const Grant&) = default;
};

/// What the engine says about a device.
struct Usage {
  std::int64_t sellable = 0;                                             // as SetSellable left it
  std::int64_t sellable_max = std::numeric_limits<std::int64_t>::max();  // that the engine can be told
  std::vector<Grant> grants = {};                                        // by consumer
  [[nodiscard]] std::int64_t used() const;
};

/// One engine. Each call blocks, for seconds at most, and may be repeated: what is so already is left as it is.
/// Errors: kNotFound       the device is not published, or no longer
///         kUnavailable, kTimeout, kBusy   try again later
///         kPermissionDenied, kInvalidArgument, kProtocol   say what a person must set right
class EngineDriver {
 public:
  virtual ~EngineDriver() = default;
  /// Tells the engine of the device and its physical shares. What was sellable stays so; of a new one nothing is.
  virtual Status Publish(const std::string& gpu, std::int64_t shares) = 0;
  /// From now on new grants are made while all together are at most `shares`.
  virtual Status SetSellable(const std::string& gpu, std::int64_t shares) = 0;
  virtual Result<Usage> ReadUsage(const std::string& gpu) = 0;
};

/// What has been granted and released between two usages: `on_grant` and `on_release` of whoever looks now and then.
/// Another number of shares is a release and a grant.
struct GrantChanges {
  std::vector<Grant> granted;
  std::vector<Grant> released;
};
GrantChanges CompareGrants(const std::vector<Grant>& before, const std::vector<Grant>& after);

}  // namespace weir::drivers
