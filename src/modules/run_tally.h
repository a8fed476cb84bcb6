// SPDX-License-Identifier: Apache-2.0
// Decides which runs of a kernel count for a profile and computes their median. Pure. A run reports its time and the
// mean number of other runs on its device (the service's `ran_beside`): 0 if it was alone, 1 if the other kernel of a
// pair was always there. Page: docs/placement.md, "Measuring kernels"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::modules {

class RunTally {
 public:
  // A run counts if `ran_beside` is this close to the expected value. The tolerance for pairs is larger, because the
  // other kernel is absent while it is started again.
  static constexpr double kAloneWithin = 0.02, kPairWithin = 0.1;
  // For a pair of kernels so short that no run counts, a time is still reported, from runs with company for half of
  // their time.
  static constexpr double kCompanyMin = 0.5;
  // Upper bounds of the tries if no run counts. Short runs may be tried often; runs longer than a moment get fewer
  // tries.
  static constexpr std::uint32_t TriesMax(std::uint32_t rounds) { return 10 * rounds + 20; }
  static constexpr std::uint32_t LongTriesMax(std::uint32_t rounds) { return 2 * rounds + 2; }
  static constexpr double kMomentSeconds = 1;

  enum class Company : std::uint8_t { kNone, kOne };
  /// `rounds` is at least 1.
  RunTally(Company company, std::uint32_t rounds) : company_(company), rounds_(rounds) {}

  void Add(double seconds, double beside);
  /// A run that can't count: its host ended, and it ran again.
  void AddSpoilt() { ++tries_; }
  /// Whether no more runs are needed.
  [[nodiscard]] bool settled() const {
    return counted_.size() >= rounds_ || tries_ >= TriesMax(rounds_) ||
           (tries_ >= LongTriesMax(rounds_) && seconds_ >= kMomentSeconds);
  }

  struct Outcome {
    double seconds = 0;  // median
    double beside = 0;   // mean over the counted runs
    std::uint32_t runs = 0;
  };
  /// kBusy: other runs were always present; kUnavailable: the two kernels hardly ever ran at the same time, or hosts
  /// ended.
  [[nodiscard]] Result<Outcome> Take() const;

 private:
  struct Sample {
    double seconds = 0, beside = 0;
  };
  static Outcome OutcomeOf(std::vector<Sample> samples);

  const Company company_;
  const std::uint32_t rounds_;
  std::uint32_t tries_ = 0;
  double seconds_ = 0;  // of all runs
  std::vector<Sample> counted_, others_;
};

}  // namespace weir::modules
