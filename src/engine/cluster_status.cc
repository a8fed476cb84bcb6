// SPDX-License-Identifier: Apache-2.0
// What the engine of a cluster reports: states, counts, and the places that a run could have.
#include <fmt/format.h>

#include <algorithm>

#include "engine/cluster_checks.h"
#include "engine/cluster_engine.h"

namespace weir::engine {

std::string_view NameOf(RunState state) {
  switch (state) {
    case RunState::kWaiting: return "waiting";
    case RunState::kRunning: return "running";
    case RunState::kDone: return "done";
    case RunState::kFailed: return "failed";
  }
  return "failed";
}

std::string_view NameOf(NodeState state) {
  switch (state) {
    case NodeState::kAwaited: return "awaited";
    case NodeState::kUp: return "up";
    case NodeState::kSuspect: return "suspect";
  }
  return "awaited";
}

const ClusterRun* ClusterEngine::FindRun(const std::string& id) const {
  const auto at = confirmed_runs_.find(id);
  return at == confirmed_runs_.end() ? nullptr : &at->second;
}

bool ClusterEngine::IsTaken(const std::string& name, RunAttempt attempt) const {
  const auto at = nodes_.find(name);
  return at == nodes_.end() || !at->second.to.contains(attempt);
}

bool ClusterEngine::IsSession(const std::string& name, std::uint64_t session) const {
  const auto at = nodes_.find(name);
  return at != nodes_.end() && at->second.greeted && at->second.session == session;
}

std::vector<ClusterNodeStatus> ClusterEngine::Nodes(Instant now) const {
  std::vector<ClusterNodeStatus> all;
  for (const auto& [name, node] : nodes_) {
    const PartsOffer* const offer = OfferOf(now, node);
    all.push_back({.node = node.record,
                   .state = !node.greeted  ? NodeState::kAwaited
                            : node.suspect ? NodeState::kSuspect
                                           : NodeState::kUp,
                   .silent = now - node.heard,
                   .running = node.to.size(),
                   .offer = offer != nullptr ? std::optional(*offer) : std::nullopt});
  }
  return all;
}

std::size_t ClusterEngine::RunsOn(const std::string& node, const std::string& device) const {
  for (const auto& [id, place] : places_)
    if (place.node == node && place.device == device) return queue_.cluster().StateOf(id)->runs;
  return 0;
}

ClusterCounts ClusterEngine::Counts() const {
  ClusterCounts counts = totals_;
  for (const auto& [id, run] : confirmed_runs_) {
    switch (run.state) {
      case RunState::kWaiting: ++counts.waiting; break;
      case RunState::kRunning: ++counts.running; break;
      case RunState::kDone: ++counts.done; break;
      case RunState::kFailed: ++counts.failed; break;
    }
  }
  counts.nodes = nodes_.size();
  counts.devices = places_.size();
  counts.modules = modules_.size();
  return counts;
}

Result<std::vector<ClusterEngine::Candidate>> ClusterEngine::ExplainRun(const std::string& id) {
  const auto run = runs_.find(id);
  if (run == runs_.end()) return Fail(Errc::kNotFound, fmt::format("no run {}", id));
  const core::InterferenceModel* model = queue_.placement().model();
  std::vector<Candidate> all;
  for (core::PlacementCandidate& candidate :
       core::Explain(queue_.cluster(), model != nullptr ? *model : first_guess_, PlacedNeed(run->second.request))) {
    const Place& place = places_.at(candidate.device);
    all.push_back({place.node, place.device, std::move(candidate)});
  }
  return all;
}

}  // namespace weir::engine
