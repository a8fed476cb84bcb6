// SPDX-License-Identifier: Apache-2.0
// The cluster manager's state machine: Step(now, event) → actions. It decides where runs go, which result counts, and
// which node is lost; it does no I/O. Each decision is a write. It reports runs, work and taken results only after
// Stored has confirmed their writes, so that a manager that dies before has promised nothing. Page: docs/cluster.md
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/placement/run_queue.h"
#include "core/schedule/policy.h"
#include "engine/cluster_events.h"

namespace weir::engine {

struct ClusterBounds {
  Duration suspect_after = milliseconds(1'500);  // a node is suspect after this time without a message
  Duration lost_after = seconds(4);              // and lost after this time
  std::size_t runs_max = 10'000;                 // runs in storage, including results
  std::uint32_t attempts_max = 5;                // a run fails when its node was lost in this many attempts
  Duration offer_lasts = seconds(2);             // lifetime of an offer that is not repeated
};
inline constexpr std::size_t kNodesMax = 1'000;
inline constexpr std::size_t kNodeDevicesMax = 64;
inline constexpr std::size_t kModulesMax = 10'000;
/// As a node's module service allows.
inline constexpr std::size_t kModuleKernelsMax = 64;
inline constexpr std::size_t kKernelSummaryBytesMax = 255;
inline constexpr std::size_t kArgumentBytesMax = 4'096;
/// Largest number of offers in one answer.
inline constexpr std::size_t kOffersMax = 64;
inline constexpr std::size_t kOfferTextBytesMax = 256;
/// Limit for IDs of runs and names of modules, nodes and devices: [A-Za-z0-9_.-].
inline constexpr std::size_t kClusterNameBytesMax = 64;
/// kInvalidArgument for an invalid name; `what` names its subject in the message.
Status CheckClusterName(const char* what, const std::string& text);
/// A node's clock is not trusted: a longer duration in a result is treated as missing.
inline constexpr double kRunSecondsMax = 1e6;

/// kAwaited: in the stored records, but it has not said hello to this manager. kSuspect: silent for suspect_after.
enum class NodeState : std::uint8_t { kAwaited, kUp, kSuspect };
std::string_view NameOf(NodeState state);

struct ClusterNodeStatus {
  ClusterNode node;
  NodeState state = NodeState::kAwaited;
  Duration silent{};        // since its last message
  std::size_t running = 0;  // confirmed runs that are placed there
  std::optional<PartsOffer> offer = {};
};
struct NodeOffer {
  std::string node;
  PartsOffer offer;
};
struct ClusterCounts {
  std::size_t waiting = 0, running = 0, done = 0, failed = 0, nodes = 0, devices = 0, modules = 0;
  std::uint64_t placed_total = 0, moved_total = 0, nodes_lost_total = 0, stale_results_total = 0;
};

class ClusterEngine {
 public:
  /// `fence`: fencing token of this leader. Numbers of runs begin with it, so that no two leaders assign the same
  /// number.
  ClusterEngine(std::unique_ptr<core::Placement> placement, std::uint64_t fence, ClusterBounds bounds = {});

  /// Called once before any event, with the stored records. Nodes are awaited from `now`. Inconsistent records (a run
  /// on an unknown node) are repaired and written.
  void Restore(Instant now, const ClusterRecords& records, ClusterActions& actions);

  /// Handles one event at `now` (never earlier than the last) and adds to `actions`. After an error nothing has
  /// changed:
  ///   kInvalidArgument  a name, a number out of its range
  ///   kNotFound         unknown module, run or node, or an ended session: the node has to say hello again
  ///   kAlreadyExists    the run's ID with another body; a node of that name is up
  ///   kResourceExhausted  a limit is reached
  Status Step(Instant now, const ClusterEvent& event, ClusterActions& actions);

  // State to report. Runs, work and taken results: only confirmed writes. Modules and nodes: as decided.
  [[nodiscard]] const std::map<std::string, ClusterRun>& runs() const { return confirmed_runs_; }
  /// Null if the run is unknown or not yet confirmed.
  [[nodiscard]] const ClusterRun* FindRun(const std::string& id) const;
  [[nodiscard]] const std::map<std::string, ClusterModule>& modules() const { return modules_; }
  [[nodiscard]] std::vector<ClusterNodeStatus> Nodes(Instant now) const;
  /// Whether TakeWork would give the node runs to start or to end.
  [[nodiscard]] bool HasWork(const std::string& node) const;
  /// Whether the node may delete the result of that attempt: it is confirmed, or no longer needed.
  [[nodiscard]] bool IsTaken(const std::string& node, RunAttempt attempt) const;
  /// Whether that session of the node is the present one.
  [[nodiscard]] bool IsSession(const std::string& node, std::uint64_t session) const;
  /// Offers of nodes that are up, except `asker`, on devices with that name and driver. Order of Algorithm 1: fewest
  /// threads first, then by name; at most kOffersMax.
  [[nodiscard]] std::vector<NodeOffer> OffersFor(Instant now, const std::string& asker, const std::string& device,
                                                 const std::string& driver) const;
  [[nodiscard]] ClusterCounts Counts() const;
  /// Number of the last write, and of the last confirmed one.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] std::uint64_t confirmed() const { return confirmed_; }
  /// When the next LookAround is due.
  [[nodiscard]] Instant LookAgain() const;

  struct Candidate {
    std::string node, device;
    core::PlacementCandidate candidate;
  };
  /// The places that the run could have now, the best first. Error: kNotFound.
  [[nodiscard]] Result<std::vector<Candidate>> ExplainRun(const std::string& id);
  [[nodiscard]] std::size_t RunsOn(const std::string& node, const std::string& device) const;

 private:
  struct Node {
    ClusterNode record;
    std::vector<DeviceId> devices;  // as in the record
    bool greeted = false;           // it has said hello to this manager
    bool suspect = false;
    std::uint64_t session = 0;
    Instant heard{};
    std::optional<PartsOffer> offer;
    Instant offered{};
    std::set<RunAttempt> has;              // attempts that the node has, by its hello and by TakeWork
    std::map<RunAttempt, std::string> to;  // confirmed attempts that are to run there, with the IDs of their runs
  };
  struct Place {
    std::string node, device;
  };

  Status On(Instant now, const SetModule& event, ClusterActions& actions);
  Status On(Instant now, const DropModule& event, ClusterActions& actions);
  Status On(Instant now, const SubmitRun& event, ClusterActions& actions);
  Status On(Instant now, const RemoveRun& event, ClusterActions& actions);
  Status On(Instant now, const NodeHello& event, ClusterActions& actions);
  Status On(Instant now, const NodeHeard& event, ClusterActions& actions);
  Status On(Instant now, const OfferParts& event, ClusterActions& actions);
  Status On(Instant now, const TakeWork& event, ClusterActions& actions);
  Status On(Instant now, const ResultCame& event, ClusterActions& actions);
  Status On(Instant now, const Stored& event, ClusterActions& actions);
  Status On(Instant now, const LookAround& event, ClusterActions& actions);

  /// Null if the node offers nothing, or has not repeated its offer for a while.
  [[nodiscard]] const PartsOffer* OfferOf(Instant now, const Node& node) const;
  /// The node of a message, whose silence ends. kNotFound if the session is not the present one.
  Result<Node*> Hear(Instant now, const std::string& name, std::uint64_t session);
  /// Adds the devices of the node's record that it does not have yet.
  void AddDevices(Instant now, Node& node, ClusterActions& actions);
  /// Removes the devices of a node that are not in `left` as its record describes them. Their runs wait again, or fail
  /// after attempts_max.
  void LoseDevices(Instant now, Node& node, const std::vector<NodeDevice>& left, const std::string& why,
                   ClusterActions& actions);
  /// Applies the queue's decisions, taking only the last one for each run.
  void CarryOut(const std::vector<core::RunAction>& decided, ClusterActions& actions);
  void EndInFailure(ClusterRun& run, Errc code, std::string message, ClusterActions& actions);
  /// What the placement learns from a result.
  [[nodiscard]] core::RunSeen SeenOf(Instant now, const ClusterRun& run);

  void WriteRun(const ClusterRun& run, ClusterActions& actions);
  void WriteRemoval(RecordWrite::Kind kind, const std::string& name, ClusterActions& actions);
  void Write(RecordWrite write, ClusterActions& actions);
  void Confirm(const RecordWrite& write);
  /// Updates what is reported of a run. `run`: its confirmed record; null: it is removed.
  void ConfirmRun(const std::string& id, const ClusterRun* run);

  const ClusterBounds bounds_;
  core::RunQueue queue_;
  core::InterferenceModel first_guess_;  // for ExplainRun if the placement has no model
  std::uint64_t next_number_;
  std::uint64_t next_session_ = 1, next_device_ = 1;
  std::uint64_t sequence_ = 0, confirmed_ = 0;
  std::map<std::string, ClusterRun> runs_;              // as decided
  std::unordered_map<std::uint64_t, std::string> ids_;  // of runs, by number
  std::map<std::string, ClusterModule> modules_;
  std::map<std::string, Node> nodes_;
  std::map<DeviceId, Place> places_;
  std::deque<RecordWrite> unconfirmed_;
  std::map<std::string, ClusterRun> confirmed_runs_;
  ClusterCounts totals_;
};

}  // namespace weir::engine
