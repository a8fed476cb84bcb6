// SPDX-License-Identifier: Apache-2.0
// A link, or a copy engine, whose flows share it evenly, as streams of one interface do. An amount is in whatever the
// rate is per second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/units.h"

namespace weir::sim {

class FairLink {
 public:
  explicit FairLink(double rate_per_s) : rate_per_s_(rate_per_s) {}

  /// `weight`: its part against the others'. A flow is added once, until it is done.
  void Add(Instant now, std::uint32_t flow, double amount, double weight = 1) {
    Advance(now);
    flows_[flow] = {std::max(amount, 0.0), weight};
    weights_ += weight;
  }
  void SetRate(Instant now, double rate_per_s) {
    Advance(now);
    rate_per_s_ = rate_per_s;
  }
  /// When the next flow is done, rounded up to a nanosecond; none: nothing flows.
  [[nodiscard]] std::optional<Instant> NextDone() const {
    double least_s = -1;
    for (const auto& [id, flow] : flows_) {
      const double left_s = flow.left * weights_ / (rate_per_s_ * flow.weight);
      if (least_s < 0 || left_s < least_s) least_s = left_s;
    }
    if (least_s < 0) return std::nullopt;
    return at_ + FromSeconds(least_s) + nanoseconds(1);
  }
  /// Takes those that are done by now, in the order of their ids.
  std::vector<std::uint32_t> TakeDone(Instant now) {
    Advance(now);
    const double crumb = rate_per_s_ * 2e-9;  // what two nanoseconds carry
    std::vector<std::uint32_t> done;
    for (auto flow = flows_.begin(); flow != flows_.end();) {
      if (flow->second.left > crumb) {
        ++flow;
        continue;
      }
      done.push_back(flow->first);
      weights_ -= flow->second.weight;
      flow = flows_.erase(flow);
    }
    if (flows_.empty()) weights_ = 0;  // not what rounding has left of it
    return done;
  }
  [[nodiscard]] std::size_t flows() const { return flows_.size(); }

 private:
  struct Flow {
    double left = 0;
    double weight = 1;
  };
  void Advance(Instant now) {
    const double passed_s = SecondsOf(now - at_);
    at_ = now;
    if (passed_s <= 0) return;
    for (auto& [id, flow] : flows_)
      flow.left = std::max(0.0, flow.left - passed_s * rate_per_s_ * flow.weight / weights_);
  }

  double rate_per_s_;
  double weights_ = 0;
  Instant at_{};
  std::map<std::uint32_t, Flow> flows_;
};

}  // namespace weir::sim
