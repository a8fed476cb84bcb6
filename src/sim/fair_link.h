// SPDX-License-Identifier: Apache-2.0
// A link or a copy engine that its flows share evenly, as streams share a network interface. The unit of amounts is
// that of the rate, times seconds: bytes for a link, seconds for a copy engine.
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

  /// `weight`: its share relative to other flows. A flow must not be added again before it is done.
  void Add(Instant now, std::uint32_t flow, double amount, double weight = 1) {
    Advance(now);
    flows_[flow] = {std::max(amount, 0.0), weight};
    weights_ += weight;
  }
  void SetRate(Instant now, double rate_per_s) {
    Advance(now);
    rate_per_s_ = rate_per_s;
  }
  /// When the next flow is done, rounded up to a nanosecond; none: there are no flows.
  [[nodiscard]] std::optional<Instant> NextDone() const {
    double least_s = -1;
    for (const auto& [id, flow] : flows_) {
      const double left_s = flow.left * weights_ / (rate_per_s_ * flow.weight);
      if (least_s < 0 || left_s < least_s) least_s = left_s;
    }
    if (least_s < 0) return std::nullopt;
    return at_ + FromSeconds(least_s) + nanoseconds(1);
  }
  /// Removes and returns the flows that are done by now, in the order of their ids.
  std::vector<std::uint32_t> TakeDone(Instant now) {
    Advance(now);
    const double crumb = rate_per_s_ * 2e-9;  // amount of two nanoseconds, for rounding; less than that is done
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
    if (flows_.empty()) weights_ = 0;  // removes rounding errors
    return done;
  }
  [[nodiscard]] std::size_t flows() const { return flows_.size(); }

 private:
  struct Flow {
    double left = 0;
    double weight = 1;
  };
  /// Lets all flows proceed up to `now`.
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
