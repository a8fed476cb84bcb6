// SPDX-License-Identifier: Apache-2.0
#include "modules/run_tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weir::modules {

void RunTally::Add(double seconds, double beside) {
  ++tries_;
  seconds_ += seconds;
  const double wanted = company_ == Company::kOne ? 1 : 0;
  const double within = company_ == Company::kOne ? kPairWithin : kAloneWithin;
  (std::abs(beside - wanted) <= within ? counted_ : others_).push_back({seconds, beside});
}

RunTally::Outcome RunTally::OutcomeOf(std::vector<Sample> samples) {
  Outcome outcome{.runs = static_cast<std::uint32_t>(samples.size())};
  for (const Sample& one : samples) outcome.beside += one.beside / static_cast<double>(samples.size());
  std::ranges::sort(samples, {}, &Sample::seconds);
  const std::size_t half = samples.size() / 2;
  outcome.seconds = samples[half].seconds;
  if (samples.size() % 2 == 0) outcome.seconds = (outcome.seconds + samples[half - 1].seconds) / 2;
  return outcome;
}

Result<RunTally::Outcome> RunTally::Take() const {
  if (counted_.size() >= rounds_) return OutcomeOf(counted_);
  std::vector<Sample> all = counted_;
  all.insert(all.end(), others_.begin(), others_.end());
  if (all.empty())
    return Fail(Errc::kUnavailable, fmt::format("the device's host ended in each of {} runs; see its log", tries_));
  const Outcome outcome = OutcomeOf(std::move(all));
  const bool crowded = outcome.beside > (company_ == Company::kOne ? 1 + kPairWithin : kAloneWithin);
  if (crowded)
    return Fail(Errc::kBusy,
                fmt::format("{:.2g} other runs were on the device on average over {} runs, instead of {}: measure "
                            "when the device is idle, or on another --device",
                            outcome.beside, outcome.runs, company_ == Company::kOne ? "one" : "none"));
  if (company_ == Company::kOne && outcome.beside >= kCompanyMin) return outcome;
  return Fail(Errc::kUnavailable,
              fmt::format("the other kernel ran for only {:.0f} % of the time of {} runs: they are too short, or the "
                          "device has no room for both",
                          outcome.beside * 100, outcome.runs));
}

}  // namespace weir::modules
