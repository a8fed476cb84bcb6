// SPDX-License-Identifier: Apache-2.0
// Which of a kernel's runs count for a profile, and what they come to. Pure. A run tells its time and how many others
// were on its device on the mean (the service's `ran_beside`): alone that is 0, and 1 where the other one of a pair was
// there all the time. Page: docs/placement.md, "Measuring kernels"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::modules {

class RunTally {
 public:
  // A run counts that was so near to the company that it should have had. Of a pair: the other one is started again,
  // and is away while that is done.
  static constexpr double kAloneWithin = 0.02, kPairWithin = 0.1;
  // Of a pair whose kernels are so short that none counts, a time is still told, of runs with company for half of it.
  static constexpr double kCompanyMin = 0.5;
  // Where none counts, so many runs are made of it, which is a matter of moments for short ones, and fewer of those
  // that take longer than a moment.
  static constexpr std::uint32_t TriesMax(std::uint32_t rounds) { return 10 * rounds + 20; }
  static constexpr std::uint32_t LongTriesMax(std::uint32_t rounds) { return 2 * rounds + 2; }
  static constexpr double kMomentSeconds = 1;

  enum class Company : std::uint8_t { kNone, kOne };
  /// `rounds` of 1 and more.
  RunTally(Company company, std::uint32_t rounds) : company_(company), rounds_(rounds) {}

  void Add(double seconds, double beside);
  /// One that tells nothing: its host had ended, and it ran again.
  void AddSpoilt() { ++tries_; }
  /// No more runs are needed.
  [[nodiscard]] bool settled() const {
    return counted_.size() >= rounds_ || tries_ >= TriesMax(rounds_) ||
           (tries_ >= LongTriesMax(rounds_) && seconds_ >= kMomentSeconds);
  }

  struct Outcome {
    double seconds = 0;  // median
    double beside = 0;   // mean over the same runs
    std::uint32_t runs = 0;
  };
  /// kBusy: others were there all the time; kUnavailable: the two hardly ever ran at the same time, or hosts ended.
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
