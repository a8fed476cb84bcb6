// SPDX-License-Identifier: Apache-2.0
// What a cluster's manager knows, what happens to it, and what the engine wants done. Plain values. Page:
// docs/cluster.md
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

/// What a client asks for. Blobs by their SHA-256.
struct RunRequest {
  std::string module = {}, blob = {}, kernel = {}, arguments = {};
  std::string input = {};  // empty: none
  core::RunNeed need = {};
  bool need_alone = false;  // the client said how long it takes alone
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
  std::string error_code = {}, error_message = {};  // of a failed one
  double seconds = 0;
  double ran_beside = 0;  // mean number of others
  friend bool operator==(const RunResult&, const RunResult&) = default;
};

/// One placing of one run. The number is never given to another run, also not to one of the same ID.
struct RunAttempt {
  std::uint64_t number = 0;
  std::uint32_t attempt = 0;
  friend auto operator<=>(const RunAttempt&, const RunAttempt&) = default;
};

struct ClusterRun {
  std::string id = {};  // the client's
  std::uint64_t number = 0;
  std::uint32_t attempt = 0;  // 0: never placed
  RunState state = RunState::kWaiting;
  std::string node = {}, device = {};  // where it runs or ran last
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
  std::string identity = {};  // drawn once by the node itself
  std::vector<NodeDevice> devices = {};
  friend bool operator==(const ClusterNode&, const ClusterNode&) = default;
};
struct ModuleKernel {
  std::string name = {}, summary = {};
  core::RunNeed need = {};  // of a run that says nothing of it
  friend bool operator==(const ModuleKernel&, const ModuleKernel&) = default;
};
struct ClusterModule {
  std::string name, blob = {};
  std::vector<ModuleKernel> kernels = {};
  friend bool operator==(const ClusterModule&, const ClusterModule&) = default;
};
/// A vGPU of a node in which others may run parts of launches that don't fit theirs, as the node said last
/// (docs/partition.md). It is not stored: a node says it again twice a second.
struct PartsOffer {
  std::string vgpu = {};
  std::string address = {};              // HOST:PORT of the node's portal
  bool plain = false;                    // which wants no token
  std::string device = {}, driver = {};  // names of the asker's, too, or results may differ
  Bytes room{};                          // free of what the vGPU may have
  std::uint64_t threads = 0;             // that run on the node
  friend bool operator==(const PartsOffer&, const PartsOffer&) = default;
};
/// What a new leader is built from.
struct ClusterRecords {
  std::vector<ClusterRun> runs;
  std::vector<ClusterNode> nodes;
  std::vector<ClusterModule> modules;
};

// -- Events ----------------------------------------------------------------------------------------------------------

struct SetModule {
  ClusterModule module;  // as a node has found it
};
struct DropModule {
  std::string name;
};
struct SubmitRun {
  std::string id;
  RunRequest request;  // without a blob: that of its module
};
/// Ends what waits or runs, and forgets it.
struct RemoveRun {
  std::string id;
};
struct NodeHello {
  ClusterNode node;
  std::vector<RunAttempt> has;  // what it runs, or has results of
};
/// Any other sign of life.
struct NodeHeard {
  std::string name;
  std::uint64_t session = 0;
};
/// What the node offers from now on; nothing: it takes back what it did.
struct OfferParts {
  std::string name;
  std::uint64_t session = 0;
  std::optional<PartsOffer> offer;
};
/// The node asks for what it has to start and to end.
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
/// All writes up to this one are in the store.
struct Stored {
  std::uint64_t sequence = 0;
};
/// Time has passed: silent nodes are looked for.
struct LookAround {};

using ClusterEvent = std::variant<SetModule, DropModule, SubmitRun, RemoveRun, NodeHello, NodeHeard, OfferParts,
                                  TakeWork, ResultCame, Stored, LookAround>;

// -- Actions ---------------------------------------------------------------------------------------------------------

/// One record as it is from now on, to be written in the order of the sequence.
struct RecordWrite {
  enum class Kind : std::uint8_t { kRun, kNode, kModule };
  std::uint64_t sequence = 0;
  Kind kind = Kind::kRun;
  std::string name;
  std::optional<std::variant<ClusterRun, ClusterNode, ClusterModule>> record;  // none: removed
};

struct NodeWork {
  std::vector<ClusterRun> start;
  std::vector<RunAttempt> drop;  // of no use any more
  [[nodiscard]] bool empty() const { return start.empty() && drop.empty(); }
};

struct ClusterActions {
  std::vector<RecordWrite> writes;
  NodeWork work;                   // of TakeWork
  std::uint64_t session = 0;       // of NodeHello
  std::vector<std::string> notes;  // for people: what was decided, about whom, and why
};

}  // namespace weir::engine
