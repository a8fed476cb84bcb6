// SPDX-License-Identifier: Apache-2.0
// The nodes of a cluster: hello, lost contact, their devices, and the work that they take.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/cluster_checks.h"
#include "engine/cluster_engine.h"

namespace weir::engine {

Result<ClusterEngine::Node*> ClusterEngine::Hear(Instant now, const std::string& name, std::uint64_t session) {
  const auto at = nodes_.find(name);
  if (at == nodes_.end() || !at->second.greeted || at->second.session != session)
    return Fail(Errc::kNotFound, fmt::format("node {} has no session {} here: send hello first", name, session));
  at->second.heard = now;
  at->second.suspect = false;
  return &at->second;
}

void ClusterEngine::AddDevices(Instant now, Node& node, ClusterActions& actions) {
  const std::vector<DeviceId> before = std::exchange(node.devices, {});
  std::vector<core::RunAction> decided;
  for (const NodeDevice& device : node.record.devices) {
    const auto there = std::ranges::find(before, device.name, [this](DeviceId id) { return places_.at(id).device; });
    if (there != before.end()) {
      node.devices.push_back(*there);
      continue;
    }
    const DeviceId id{next_device_++};
    // Set before the queue gets the device, since the queue may start runs there at once.
    Place& place = places_[id];
    place.node = node.record.name;
    place.device = device.name;
    WEIR_CHECK(queue_.AddDevice(now, id, device.name, device.capacity, decided).has_value());
    node.devices.push_back(id);
  }
  CarryOut(decided, actions);
}

void ClusterEngine::LoseDevices(Instant now, Node& node, const std::vector<NodeDevice>& left, const std::string& why,
                                ClusterActions& actions) {
  std::vector<std::string> lost;
  std::vector<core::RunAction> decided;
  std::vector<DeviceId> stay;
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    const DeviceId device = node.devices[i];
    if (std::ranges::find(left, node.record.devices[i]) != left.end()) {
      stay.push_back(device);
      continue;
    }
    for (const core::RunId number : queue_.cluster().RunsOn(device)) {
      ClusterRun& run = runs_.at(ids_.at(number.value));
      if (run.state != RunState::kRunning)
        continue;  // the queue has just placed it here, from a device lost before this one
      run.state = RunState::kWaiting;
      lost.push_back(run.id);
    }
    WEIR_CHECK(queue_.LoseDevice(now, device, {}, decided).has_value());
    places_.erase(device);
  }
  node.devices = std::move(stay);
  for (const std::string& id : lost) {
    ClusterRun& run = runs_.at(id);
    if (run.attempt < bounds_.attempts_max) continue;
    // The queue may have refused the run already, if no remaining device could hold it.
    (void)queue_.Withdraw(now, core::RunId{run.number}, decided).has_value();
    EndInFailure(
        run, Errc::kUnavailable,
        fmt::format("given up after {} attempts: {} each time, at last on node {}", run.attempt, why, run.node),
        actions);
  }
  CarryOut(decided, actions);
  for (const std::string& id : lost)
    if (const ClusterRun& run = runs_.at(id); run.state == RunState::kWaiting) WriteRun(run, actions);
}

Status ClusterEngine::On(Instant now, const NodeHello& event, ClusterActions& actions) {
  WEIR_TRY_STATUS(CheckNode(event.node));
  const auto there = nodes_.find(event.node.name);
  if (there != nodes_.end() && there->second.record.identity != event.node.identity)
    return Fail(
        Errc::kAlreadyExists,
        fmt::format("another node named {} is {} (last contact {:.1f} s ago): give one of them another name with "
                    "--node-name",
                    event.node.name, there->second.greeted ? "here" : "awaited", SecondsOf(now - there->second.heard)));
  if (there == nodes_.end() && nodes_.size() >= kNodesMax)
    return Fail(Errc::kResourceExhausted, fmt::format("{} nodes have joined, the maximum", nodes_.size()));

  Node& node = nodes_[event.node.name];
  node.greeted = true;
  node.suspect = false;
  node.heard = now;
  node.session = next_session_++;
  node.has = {event.has.begin(), event.has.end()};
  actions.session = node.session;
  if (node.record == event.node) return Ok();

  const bool fresh = there == nodes_.end();
  if (!fresh) LoseDevices(now, node, event.node.devices, "its device was removed or changed", actions);
  node.record = event.node;
  Write({.sequence = 0, .kind = RecordWrite::Kind::kNode, .name = event.node.name, .record = event.node}, actions);
  if (fresh)
    for (const auto& [id, run] : confirmed_runs_)
      if (run.state == RunState::kRunning && run.node == event.node.name) node.to[run.Attempt()] = id;
  AddDevices(now, node, actions);
  actions.decisions.push_back(NodeJoined{.node = event.node.name, .devices = event.node.devices.size()});
  return Ok();
}

Status ClusterEngine::On(Instant now, const NodeHeard& event, ClusterActions&) {
  WEIR_TRY(Node* const node, Hear(now, event.name, event.session));
  (void)node;
  return Ok();
}

bool ClusterEngine::HasWork(const std::string& name) const {
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return false;
  const Node& node = at->second;
  for (const RunAttempt& attempt : node.has)
    if (!node.to.contains(attempt)) return true;
  return std::ranges::any_of(node.to, [&](const auto& entry) {
    if (node.has.contains(entry.first)) return false;
    const auto run = runs_.find(entry.second);
    return run != runs_.end() && run->second.state == RunState::kRunning && run->second.Attempt() == entry.first;
  });
}

Status ClusterEngine::On(Instant now, const TakeWork& event, ClusterActions& actions) {
  WEIR_TRY(Node* const node, Hear(now, event.name, event.session));
  for (const RunAttempt& attempt : node->has)
    if (!node->to.contains(attempt)) actions.work.drop.push_back(attempt);
  for (const RunAttempt& attempt : actions.work.drop) node->has.erase(attempt);
  for (const auto& [attempt, id] : node->to) {
    if (node->has.contains(attempt)) continue;
    // An attempt whose move is decided but not yet confirmed is no longer started.
    const auto run = runs_.find(id);
    if (run == runs_.end() || run->second.state != RunState::kRunning || run->second.Attempt() != attempt) continue;
    actions.work.start.push_back(run->second);
    node->has.insert(attempt);
  }
  return Ok();
}

Status ClusterEngine::On(Instant now, const LookAround&, ClusterActions& actions) {
  std::vector<std::string> lost;
  for (auto& [name, node] : nodes_) {
    const Duration silent = now - node.heard;
    node.suspect = silent >= bounds_.suspect_after;
    if (silent >= bounds_.lost_after) lost.push_back(name);
  }
  for (const std::string& name : lost) {
    Node& node = nodes_.at(name);
    actions.decisions.push_back(NodeLost{.node = name, .silent = now - node.heard, .runs = node.to.size()});
    LoseDevices(now, node, {}, "its node was lost", actions);
    nodes_.erase(name);
    WriteRemoval(RecordWrite::Kind::kNode, name, actions);
    ++totals_.nodes_lost_total;
  }
  return Ok();
}

Instant ClusterEngine::LookAgain() const {
  Instant next = core::kNever;
  for (const auto& [name, node] : nodes_)
    next = std::min(next, node.heard + (node.suspect ? bounds_.lost_after : bounds_.suspect_after));
  return next;
}

}  // namespace weir::engine
