// SPDX-License-Identifier: Apache-2.0
// The cluster manager's state machine: Step(now, event) → actions. It decides where runs go, whose result counts, and
// which node is lost; it writes nothing and talks to nobody. What it decides is a write, and what it tells (runs, work,
// taken) is only what Stored has confirmed, so that a manager that dies in between has promised nothing.
// Page: docs/cluster.md
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
  Duration suspect_after = milliseconds(1'500);
  Duration lost_after = seconds(4);
  std::size_t runs_max = 10'000;  // that are kept, results among them
  std::uint32_t attempts_max = 5;
  Duration offer_lasts = seconds(2);  // one that isn't said again
};
inline constexpr std::size_t kNodesMax = 1'000;
inline constexpr std::size_t kNodeDevicesMax = 64;
inline constexpr std::size_t kModulesMax = 10'000;
inline constexpr std::size_t kArgumentBytesMax = 4'096;
/// Offers that are told to one who asks.
inline constexpr std::size_t kOffersMax = 64;
inline constexpr std::size_t kOfferTextBytesMax = 256;
/// Of IDs of runs and names of modules, nodes and devices: [A-Za-z0-9_.-].
inline constexpr std::size_t kClusterNameBytesMax = 64;
/// `what` it is names, for the error: kInvalidArgument.
Status CheckClusterName(const char* what, const std::string& text);
/// A node's clock is not ours: a result that says it took longer than this is taken for one that says nothing.
inline constexpr double kRunSecondsMax = 1e6;

enum class NodeState : std::uint8_t { kAwaited, kUp, kSuspect };
std::string_view NameOf(NodeState state);

struct ClusterNodeStatus {
  ClusterNode node;
  NodeState state = NodeState::kAwaited;
  Duration silent{};
  std::size_t running = 0;  // placed there, as confirmed
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
  /// `fence`: of the lead. Numbers of runs begin with it, so that no two leaders give one number out.
  ClusterEngine(std::unique_ptr<core::Placement> placement, std::uint64_t fence, ClusterBounds bounds = {});

  /// Once, before any event: what was stored. Nodes are awaited from `now`. What can't be (a run on a node that there
  /// is not) is put right, and written.
  void Restore(Instant now, const ClusterRecords& records, ClusterActions& actions);

  /// Takes one event at `now` (never earlier than the last), and adds to `actions`. An error means that nothing
  /// changed:
  ///   kInvalidArgument  a name, a number out of its range
  ///   kNotFound         no such module, run or node, or a session that is over: say hello again
  ///   kAlreadyExists    the run's ID with another body; a node of that name is there
  ///   kResourceExhausted  a limit
  Status Step(Instant now, const ClusterEvent& event, ClusterActions& actions);

  // What may be told: as confirmed.
  [[nodiscard]] const std::map<std::string, ClusterRun>& runs() const { return confirmed_runs_; }
  /// None: there is no such run, or it isn't confirmed yet.
  [[nodiscard]] const ClusterRun* FindRun(const std::string& id) const;
  [[nodiscard]] const std::map<std::string, ClusterModule>& modules() const { return modules_; }
  [[nodiscard]] std::vector<ClusterNodeStatus> Nodes(Instant now) const;
  /// Work for the node that it was not told of.
  [[nodiscard]] bool HasWork(const std::string& node) const;
  /// The node need not keep the result of that attempt any longer.
  [[nodiscard]] bool IsTaken(const std::string& node, RunAttempt attempt) const;
  [[nodiscard]] bool IsSession(const std::string& node, std::uint64_t session) const;
  /// What nodes that are up, but `asker`, offer on devices of that name and driver. As Algorithm 1 chooses: fewest
  /// threads first, then by name; kOffersMax at most.
  [[nodiscard]] std::vector<NodeOffer> OffersFor(Instant now, const std::string& asker, const std::string& device,
                                                 const std::string& driver) const;
  [[nodiscard]] ClusterCounts Counts() const;
  /// The last write, and the last one that is confirmed.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] std::uint64_t confirmed() const { return confirmed_; }
  [[nodiscard]] Instant LookAgain() const;

  struct Candidate {
    std::string node, device;
    core::PlacementCandidate candidate;
  };
  /// Where the run could go now, the best first. kNotFound.
  [[nodiscard]] Result<std::vector<Candidate>> ExplainRun(const std::string& id);
  [[nodiscard]] std::size_t RunsOn(const std::string& node, const std::string& device) const;

 private:
  struct Node {
    ClusterNode record;
    std::vector<DeviceId> devices;  // as in the record
    bool greeted = false;           // said hello to this manager
    bool suspect = false;
    std::uint64_t session = 0;
    Instant heard{};
    std::optional<PartsOffer> offer;
    Instant offered{};
    std::set<RunAttempt> has;              // what it was told of, or said it has
    std::map<RunAttempt, std::string> to;  // confirmed: what is to run there
  };
  struct Place {
    std::string node, device;
    core::DeviceCapacity capacity;
    Instant since{};  // up to when its runs' company is reckoned
    std::set<std::uint64_t> numbers;
  };
  /// A run that is somewhere.
  struct Beside {
    core::RunNeed need{};
    core::Company company{};
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

  /// Null: it offers nothing, or has not said so for a while.
  [[nodiscard]] const PartsOffer* OfferOf(Instant now, const Node& node) const;
  Result<Node*> Hear(Instant now, const std::string& name, std::uint64_t session);
  void AddDevices(Instant now, Node& node, ClusterActions& actions);
  void LoseDevices(Instant now, Node& node, const std::string& why, ClusterActions& actions);
  /// The queue's decisions as they are after all of them: who is where.
  void CarryOut(Instant now, const std::vector<core::RunAction>& decided, ClusterActions& actions);
  void EndInFailure(ClusterRun& run, Errc code, std::string message, ClusterActions& actions);
  void Account(Instant now, Place& place);
  void PutOn(Instant now, const ClusterRun& run, DeviceId device);
  void TakeOff(Instant now, const ClusterRun& run, DeviceId device);
  [[nodiscard]] core::RunSeen SeenOf(const ClusterRun& run) const;

  void WriteRun(const ClusterRun& run, ClusterActions& actions);
  void WriteRemoval(RecordWrite::Kind kind, const std::string& name, ClusterActions& actions);
  void Write(RecordWrite write, ClusterActions& actions);
  void Confirm(const RecordWrite& write);
  void ConfirmRun(const std::string& id, const ClusterRun* run);

  const ClusterBounds bounds_;
  core::RunQueue queue_;
  core::InterferenceModel first_guess_;
  std::uint64_t next_number_;
  std::uint64_t next_session_ = 1, next_device_ = 1;
  std::uint64_t sequence_ = 0, confirmed_ = 0;
  std::map<std::string, ClusterRun> runs_;  // as decided
  std::unordered_map<std::uint64_t, std::string> ids_;
  std::map<std::string, ClusterModule> modules_;
  std::map<std::string, Node> nodes_;
  std::map<DeviceId, Place> places_;
  std::unordered_map<std::uint64_t, Beside> beside_;
  std::deque<RecordWrite> unconfirmed_;
  std::map<std::string, ClusterRun> confirmed_runs_;
  ClusterCounts totals_;
};

}  // namespace weir::engine
