// SPDX-License-Identifier: Apache-2.0
// Decides a driver's next actions from the node's offer and the engine's grants. Pure and level-triggered: it compares
// the actual state with the wanted one, so that restarts and failed calls lose nothing.
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
  std::int64_t shares = 8;                 // number of shares that make up the device
  std::string prefix = {};                 // of the vGPUs' names
  Duration node_lost = seconds(3);         // without an answer for this long the node counts as selling nothing
  Duration retry_min = milliseconds(100);  // first pause after a failed call; doubles each time …
  Duration retry_max = seconds(5);         // … up to this maximum
};

enum class ActionKind : std::uint8_t { kPublish, kSetSellable, kMakeVgpu, kResize, kSqueeze, kRemoveVgpu };

struct Action {
  ActionKind kind = ActionKind::kPublish;
  std::string vgpu = {};          // kMakeVgpu, kResize, kSqueeze, kRemoveVgpu
  std::int64_t shares = 0;        // kPublish, kSetSellable, kMakeVgpu, kResize
  double cap = 0;                 // kMakeVgpu, kResize, kSqueeze
  std::optional<uid_t> uid = {};  // kMakeVgpu: owner
  friend bool operator==(const Action&, const Action&) = default;
};

/// One reading of both sides. A field that could not be read is empty.
struct Sighting {
  std::optional<NodeView> node = {};  // read before `usage`: a vGPU without a grant has lost it
  std::optional<Usage> usage = {};
  bool published = true;  // false: the engine does not know the device
};

class DriverLoop {
 public:
  /// The cap of a vGPU whose consumer has gone while programs are still attached: the minimum.
  static constexpr double kSqueezedCap = 0.01;
  /// Consecutive readings without a consumer before its vGPU is removed.
  static constexpr int kLooksMissed = 2;

  DriverLoop(LoopSettings settings, std::uint64_t seed);

  /// Returns the actions for now. The caller carries them out in order and reports each to Done.
  std::vector<Action> Step(Instant now, const Sighting& seen);
  void Done(Instant now, const Action& action, bool well);

 private:
  struct Retry {
    int failures = 0;
    Instant not_before{};
  };
  /// Whether the action has not failed lately.
  [[nodiscard]] bool MayRetry(Instant now, const Action& action) const;
  void Propose(Instant now, Action action, std::vector<Action>& actions) const;
  void FollowOffer(Instant now, const Sighting& seen, std::vector<Action>& actions);
  void FollowGrants(Instant now, const NodeView& node, const Usage& usage, std::vector<Action>& actions);

  LoopSettings settings_;
  Prng prng_;
  std::optional<Instant> node_seen_;
  std::optional<Instant> began_;
  std::map<std::string, Retry> retries_;  // by kind and vGPU; the last failures
  std::map<std::string, int> missed_;     // by vGPU: consecutive readings without its consumer
};

}  // namespace weir::drivers
