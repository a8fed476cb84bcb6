// SPDX-License-Identifier: Apache-2.0
// What a member remembers of its node and of its manager. Pure: `now` is an argument.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "engine/cluster_events.h"

namespace weir::cluster {

/// The devices that a member reports. A device whose host has ended is away until the next host serves it. It stays in
/// the list meanwhile, because the manager takes a device that is missing for a lost one and moves its runs.
class KnownDevices {
 public:
  /// A device that is away for this long is removed from the list. A host is started again within 2 s.
  static constexpr Duration kAwayMax = seconds(5);

  /// `present`: the devices that serve now. True: the list has changed.
  bool Update(Instant now, const std::vector<engine::NodeDevice>& present);
  [[nodiscard]] const std::vector<engine::NodeDevice>& list() const { return list_; }

 private:
  std::vector<engine::NodeDevice> list_;
  std::map<std::string, Instant> seen_;  // when each device of the list was last present
};

/// Blobs that the manager has received. It may remove them again, so that each is trusted for a short time only.
class GivenBlobs {
 public:
  static constexpr Duration kTrusted = seconds(60);
  static constexpr std::size_t kMax = 100'000;

  void Add(Instant now, const std::string& blob);
  [[nodiscard]] bool Has(Instant now, const std::string& blob) const;
  /// Another manager may have other blobs.
  void Clear() { given_.clear(); }

 private:
  std::map<std::string, Instant> given_;
};

/// The body of a request that returns results to the manager, which bounds it.
class ResultsBody {
 public:
  static constexpr std::size_t kBytesMax = 512 * 1024;

  explicit ResultsBody(std::uint64_t session);
  /// False: the body is full, and the result is left for the next one.
  [[nodiscard]] bool Add(engine::RunAttempt attempt, const engine::RunResult& result);
  /// JSON; bytes of a module that are no UTF-8 are replaced.
  [[nodiscard]] std::string Text() const { return text_ + "]}"; }

 private:
  std::string text_;
  bool is_empty_ = true;
};

}  // namespace weir::cluster
