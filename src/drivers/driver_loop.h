// SPDX-License-Identifier: Apache-2.0
// What a driver does next: from what the node sells and what the engine says, to calls of both. Pure, and by levels
// rather than by edges: it compares what is with what should be, so that nothing is lost over a restart or a call that
// failed.
//
//   node's offer  ──▶ SellableOf ──▶ SetSellable        a node that is gone sells nothing
//   engine's grants − node's vGPUs ──▶ MakeVgpu         on_grant
//   node's vGPUs − engine's grants ──▶ RemoveVgpu       on_release; while programs are attached: squeezed, and again
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/units.h"
#include "drivers/engine_driver.h"
#include "drivers/shares.h"

namespace weir::drivers {

struct LoopSettings {
  std::int64_t shares = 8;                 // that the device is cut into
  std::string prefix = {};                 // of the vGPUs' names
  Duration node_lost = seconds(3);         // after so long without an answer the node sells nothing
  Duration retry_min = milliseconds(100);  // after a call that failed, doubled each time …
  Duration retry_max = seconds(5);         // … up to this
};

enum class ActionKind : std::uint8_t { kPublish, kSetSellable, kMakeVgpu, kSetCap, kRemoveVgpu };

struct Action {
  ActionKind kind = ActionKind::kPublish;
  std::string vgpu = {};          // kMakeVgpu, kSetCap, kRemoveVgpu
  std::int64_t shares = 0;        // kPublish, kSetSellable, kMakeVgpu
  double cap = 0;                 // kMakeVgpu, kSetCap
  std::optional<uid_t> uid = {};  // kMakeVgpu: whose it is
  friend bool operator==(const Action&, const Action&) = default;
};

/// What one look has found. What could not be read is absent.
struct Sighting {
  std::optional<NodeView> node = {};  // read before `usage`: what is here and not there has ended, not just begun
  std::optional<Usage> usage = {};
  bool published = true;  // false: the engine doesn't know the device
};

class DriverLoop {
 public:
  /// The cap of one whose consumer has gone while programs are still attached: the least that there is.
  static constexpr double kSqueezedCap = 0.01;
  /// Looks in succession that must miss a consumer before its vGPU is removed.
  static constexpr int kLooksMissed = 2;

  DriverLoop(LoopSettings settings, std::uint64_t seed);

  /// What to do now; each is done in this order and told by Done.
  std::vector<Action> Step(Instant now, const Sighting& seen);
  void Done(Instant now, const Action& action, bool well);

 private:
  struct Retry {
    int failures = 0;
    Instant not_before{};
  };
  [[nodiscard]] bool May(Instant now, const Action& action) const;
  void Propose(Instant now, Action action, std::vector<Action>& actions) const;
  void FollowOffer(Instant now, const Sighting& seen, std::vector<Action>& actions);
  void FollowGrants(Instant now, const NodeView& node, const Usage& usage, std::vector<Action>& actions);

  LoopSettings settings_;
  Prng prng_;
  std::optional<Instant> node_seen_;
  std::optional<Instant> began_;
  std::map<std::string, Retry> retries_;  // by kind and vGPU; of what failed last
  std::map<std::string, int> missed_;     // by vGPU: looks in succession without its consumer
};

}  // namespace weir::drivers
