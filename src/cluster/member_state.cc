// SPDX-License-Identifier: Apache-2.0
#include "cluster/member_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/cluster_json.h"

namespace weir::cluster {

bool KnownDevices::Update(Instant now, const std::vector<engine::NodeDevice>& present) {
  const std::vector<engine::NodeDevice> before = std::exchange(list_, {});
  for (const engine::NodeDevice& device : present) seen_[device.name] = now;
  std::erase_if(seen_, [now](const auto& entry) { return now - entry.second >= kAwayMax; });
  for (const engine::NodeDevice& device : before) {
    const auto there = std::ranges::find(present, device.name, &engine::NodeDevice::name);
    if (seen_.contains(device.name)) list_.push_back(there != present.end() ? *there : device);
  }
  for (const engine::NodeDevice& device : present)
    if (std::ranges::find(before, device.name, &engine::NodeDevice::name) == before.end()) list_.push_back(device);
  return list_ != before;
}

void GivenBlobs::Add(Instant now, const std::string& blob) {
  if (given_.size() >= kMax) given_.clear();
  given_[blob] = now;
}

bool GivenBlobs::Has(Instant now, const std::string& blob) const {
  const auto at = given_.find(blob);
  return at != given_.end() && now - at->second < kTrusted;
}

ResultsBody::ResultsBody(std::uint64_t session) : text_(fmt::format("{{\"session\":{},\"results\":[", session)) {}

bool ResultsBody::Add(engine::RunAttempt attempt, const engine::RunResult& result) {
  nlohmann::ordered_json body = JsonOf(result);
  body["number"] = attempt.number;
  body["attempt"] = attempt.attempt;
  const std::string one = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (!is_empty_ && text_.size() + one.size() > kBytesMax) return false;
  text_ += (is_empty_ ? "" : ",") + one;
  is_empty_ = false;
  return true;
}

}  // namespace weir::cluster
