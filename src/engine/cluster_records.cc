// SPDX-License-Identifier: Apache-2.0
// The writes of a cluster's engine, and what changes when they are confirmed.
#include <algorithm>

#include "engine/cluster_engine.h"

namespace weir::engine {

void ClusterEngine::Write(RecordWrite write, ClusterActions& actions) {
  write.sequence = ++sequence_;
  unconfirmed_.push_back(write);
  actions.writes.push_back(std::move(write));
}

void ClusterEngine::WriteRun(const ClusterRun& run, ClusterActions& actions) {
  Write({.sequence = 0, .kind = RecordWrite::Kind::kRun, .name = run.id, .record = run}, actions);
}

void ClusterEngine::WriteRemoval(RecordWrite::Kind kind, const std::string& name, ClusterActions& actions) {
  Write({.sequence = 0, .kind = kind, .name = name, .record = std::nullopt}, actions);
}

Status ClusterEngine::On(Instant, const Stored& event, ClusterActions&) {
  WEIR_CHECK(event.sequence <= sequence_);
  while (!unconfirmed_.empty() && unconfirmed_.front().sequence <= event.sequence) {
    Confirm(unconfirmed_.front());
    unconfirmed_.pop_front();
  }
  confirmed_ = std::max(confirmed_, event.sequence);
  return Ok();
}

void ClusterEngine::Confirm(const RecordWrite& write) {
  if (write.kind != RecordWrite::Kind::kRun) return;
  ConfirmRun(write.name, write.record ? std::get_if<ClusterRun>(&*write.record) : nullptr);
}

void ClusterEngine::ConfirmRun(const std::string& id, const ClusterRun* run) {
  const auto before = confirmed_runs_.find(id);
  if (before != confirmed_runs_.end() && before->second.state == RunState::kRunning) {
    const RunAttempt attempt = before->second.Attempt();
    if (const auto node = nodes_.find(before->second.node); node != nodes_.end()) {
      node->second.to.erase(attempt);
      // The node waits for this confirmation and then deletes the result by itself.
      if (run != nullptr && run->ended() && run->Attempt() == attempt) node->second.has.erase(attempt);
    }
  }
  if (run == nullptr) {
    confirmed_runs_.erase(id);
    return;
  }
  confirmed_runs_[id] = *run;
  if (run->state != RunState::kRunning) return;
  if (const auto node = nodes_.find(run->node); node != nodes_.end()) node->second.to[run->Attempt()] = id;
}

}  // namespace weir::engine
