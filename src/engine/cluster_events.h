// SPDX-License-Identifier: Apache-2.0
// State of a cluster's manager, its events, and the actions of the engine. Plain values. Page: docs/cluster.md
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/errc.h"
#include "base/units.h"
#include "core/placement/load.h"

namespace weir::engine {

/// A client's request. Blobs are named by their SHA-256.
struct RunRequest {
  std::string module = {}, blob = {}, kernel = {}, arguments = {};
  std::string input = {};  // empty: none
  core::RunNeed need = {};
  bool need_alone = false;  // the client has given `need.alone_ms`
  double seconds_max = 60;
  friend bool operator==(const RunRequest&, const RunRequest&) = default;
};

/// waiting ──▶ running ──▶ done | failed; from running back to waiting when its node is lost.
enum class RunState : std::uint8_t { kWaiting, kRunning, kDone, kFailed };
std::string_view NameOf(RunState state);

struct RunResult {
  bool failed = false;
  std::string output = {};  // blob; empty: none
  std::string text = {};
  std::string error_code = {}, error_message = {};  // if failed
  double seconds = 0;
  double ran_beside = 0;  // mean number of other runs on the device
  friend bool operator==(const RunResult&, const RunResult&) = default;
};

/// One placement of one run. The number of a run is never reused, not even for another run with the same ID.
struct RunAttempt {
  std::uint64_t number = 0;
  std::uint32_t attempt = 0;
  friend auto operator<=>(const RunAttempt&, const RunAttempt&) = default;
};

struct ClusterRun {
  std::string id = {};      // chosen by the client
  std::string tenant = {};  // who submitted it; empty: no tenant
  std::uint64_t number = 0;
  std::uint32_t attempt = 0;  // 0: not placed yet
  RunState state = RunState::kWaiting;
  std::string node = {}, device = {};  // present or last place
  RunRequest request = {};
  RunResult result = {};
  [[nodiscard]] RunAttempt Attempt() const { return {number, attempt}; }
  [[nodiscard]] bool ended() const { return state == RunState::kDone || state == RunState::kFailed; }
  friend bool operator==(const ClusterRun&, const ClusterRun&) = default;
};

struct NodeDevice {
  std::string name = {};
  core::DeviceCapacity capacity = {};
  friend bool operator==(const NodeDevice&, const NodeDevice&) = default;
};
struct ClusterNode {
  std::string name;
  std::string identity = {};  // generated once by the node
  std::vector<NodeDevice> devices = {};
  friend bool operator==(const ClusterNode&, const ClusterNode&) = default;
};
struct ModuleKernel {
  std::string name = {}, summary = {};
  core::RunNeed need = {};  // default for runs without a need
  friend bool operator==(const ModuleKernel&, const ModuleKernel&) = default;
};
struct ClusterModule {
  std::string name, blob = {};
  std::vector<ModuleKernel> kernels = {};
  friend bool operator==(const ClusterModule&, const ClusterModule&) = default;
};
/// A vGPU of a node in which other nodes may run parts of launches that don't fit their own memory, as last reported
/// (docs/partition.md). It is not stored: a node repeats it twice a second.
struct PartsOffer {
  std::string vgpu = {};
  std::string address = {};              // HOST:PORT of the portal of the node
  bool plain = false;                    // the portal needs no token
  std::string device = {}, driver = {};  // must equal the requester's, or results may differ
  Bytes room{};                          // free part of the vGPU's limit
  std::uint64_t threads = 0;             // running on the node
  friend bool operator==(const PartsOffer&, const PartsOffer&) = default;
};
/// Records from which a new leader is built.
struct ClusterRecords {
  std::vector<ClusterRun> runs;
  std::vector<ClusterNode> nodes;
  std::vector<ClusterModule> modules;
};

// -- Events ----------------------------------------------------------------------------------------------------------

struct SetModule {
  ClusterModule module;  // as found by a node
};
struct DropModule {
  std::string name;
};
struct SubmitRun {
  std::string id;
  RunRequest request;  // without a blob: uses the module's
  std::string tenant = {};
};
/// Ends a waiting or running run, and removes it.
struct RemoveRun {
  std::string id;
};
struct NodeHello {
  ClusterNode node;
  std::vector<RunAttempt> has;  // attempts that the node runs, or whose results it has
};
/// Any other message of a node.
struct NodeHeard {
  std::string name;
  std::uint64_t session = 0;
};
/// The present offer of a node. Unset: the node withdraws its offer.
struct OfferParts {
  std::string name;
  std::uint64_t session = 0;
  std::optional<PartsOffer> offer;
};
/// The node requests runs to start and to end.
struct TakeWork {
  std::string name;
  std::uint64_t session = 0;
};
struct ResultCame {
  std::string name;
  std::uint64_t session = 0;
  RunAttempt attempt;
  RunResult result;
};
/// All writes up to this one have been stored.
struct Stored {
  std::uint64_t sequence = 0;
};
/// Time has passed: the engine looks for silent nodes.
struct LookAround {};

using ClusterEvent = std::variant<SetModule, DropModule, SubmitRun, RemoveRun, NodeHello, NodeHeard, OfferParts,
                                  TakeWork, ResultCame, Stored, LookAround>;

// -- Actions ---------------------------------------------------------------------------------------------------------

/// The new state of one record; records are written in the order of their sequence.
struct RecordWrite {
  enum class Kind : std::uint8_t { kRun, kNode, kModule };
  std::uint64_t sequence = 0;
  Kind kind = Kind::kRun;
  std::string name;
  std::optional<std::variant<ClusterRun, ClusterNode, ClusterModule>> record;  // unset: removed
};

struct NodeWork {
  std::vector<ClusterRun> start;
  std::vector<RunAttempt> drop;  // no longer needed
  [[nodiscard]] bool empty() const { return start.empty() && drop.empty(); }
};

/// What the manager logs.
struct NodeJoined {
  std::string node;
  std::size_t devices = 0;
};
struct NodeLost {
  std::string node;
  Duration silent{};
  std::size_t runs = 0;
};
using ClusterDecision = std::variant<NodeJoined, NodeLost>;

struct ClusterActions {
  std::vector<RecordWrite> writes;
  NodeWork work;              // result of TakeWork
  std::uint64_t session = 0;  // result of NodeHello
  std::vector<ClusterDecision> decisions;
};

}  // namespace weir::engine
