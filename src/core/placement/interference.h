// SPDX-License-Identifier: Apache-2.0
// How much slower runs get beside each other: a line through measured solo and pair runs, and through what was seen
// since. gCloud gives no formula (section IV: local memory, global memory, threads and blocks count); this one is ours.
// Page: docs/placement.md
//
//   slowdown of a beside B  =  1 + company · |B| + Σ over loads r of weight_r · a_r · Σ over b in B of b_r
//
// a_r, b_r: loads over what the device has. Two runs that fill a resource share it, so weight 1 is the first guess.
// What no load tells is company: on a device that runs kernels in turns all of it, and its weight is then about 1.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/placement/load.h"
#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array kInterferenceParams{
    PolicyParam{"prior_weight", "", 1.0, 0.0, 100.0,
                "of each load before anything was measured (two that fill a resource share it)"},
    PolicyParam{"prior_company", "", 0.01, 0.0, 100.0, "of each neighbour, likewise (ours: breaks ties towards few)"},
    PolicyParam{"prior_runs", "runs", 0.01, 1e-6, 1e6,
                "so many measured runs that fill the device count as much as the first guess (ours: few)"},
    PolicyParam{"half_life_runs", "runs", 1000.0, 0.0, 1e9,
                "after so many observations an old one counts half; 0: for ever (ours)"},
    PolicyParam{"turns_at", "", 0.9, 0.0, 100.0,
                "where each neighbour slows a run by so many times its time alone, they only take turns (1: two take "
                "as long as one after the other), and it is not started beside them; 0: it always is (ours)"},
    PolicyParam{
        "turns_deep", "runs", 2.0, 1.0, 1000.0,
        "but so many of them are started at once: while one copies, checks or is fetched another computes (ours)"},
};
/// Complete and in range, as CheckParams of a policy.
Result<PolicyParams> CheckInterferenceParams(const PolicyParams& given);

/// A kernel that ran alone.
struct SoloRun {
  std::string kernel{};
  RunNeed need{};
  double seconds = 0;
};
/// Two kernels that ran together: what each took while the other one ran all the time (it is started again).
struct PairRun {
  std::string first{}, second{};
  double first_s = 0, second_s = 0;
};

/// Interference of one run with what runs on a device.
struct Interference {
  double slowdown = 1;  // of the run: its time over its time alone
  double lost_s = 0;    // seconds that all together lose by it: the run itself, and what runs there already
};

class InterferenceModel {
 public:
  static constexpr std::size_t kWeights = kLoadKinds + 1;  // by LoadKind, then company
  using Weights = std::array<double, kWeights>;

  /// The first guess. `checked`: of CheckInterferenceParams.
  explicit InterferenceModel(const PolicyParams& checked);
  InterferenceModel() : InterferenceModel(CheckInterferenceParams({}).value()) {}

  /// A run took `slowdown` times what it takes alone, beside `beside` (which doesn't count the run itself; means over
  /// its time, so they need not be whole). What is not finite, or not above 0, is ignored.
  void Observe(const RunNeed& run, const std::array<double, kLoadKinds>& beside, double neighbours,
               const DeviceCapacity& device, double slowdown);

  [[nodiscard]] Interference Predict(const RunNeed& run, const DeviceState& beside, const DeviceCapacity& device) const;
  /// Nothing is gained by running it there before others have ended: it and its neighbours would only take turns.
  [[nodiscard]] bool TakesTurns(const Interference& predicted, const DeviceState& beside) const {
    return turns_at_ > 0 && beside.runs >= turns_deep_ && predicted.slowdown - 1 >= turns_at_ * beside.runs;
  }
  /// What each load adds to the run's slowdown, and company.
  [[nodiscard]] Weights PartsOf(const RunNeed& run, const DeviceState& beside, const DeviceCapacity& device) const;

  [[nodiscard]] const Weights& weights() const { return weights_; }
  /// Observations, old ones counted less; and how far off the line is from them, root of the mean square.
  [[nodiscard]] double observations() const { return observations_; }
  [[nodiscard]] double ErrorRms() const;

 private:
  friend Result<InterferenceModel> Fit(std::span<const SoloRun>, std::span<const PairRun>, const DeviceCapacity&,
                                       const PolicyParams&);
  void Add(const Weights& x, double y);
  void Solve();

  double prior_runs_ = 0, keep_ = 1, turns_at_ = 0, turns_deep_ = 1;
  Weights prior_{};
  // Σ x·xᵀ, Σ x·y, Σ y² of what was observed.
  std::array<Weights, kWeights> xx_{};
  Weights xy_{};
  double yy_ = 0, observations_ = 0;
  Weights weights_{};
};

/// Least squares over both runs of every pair, no weight below 0. All on devices like `device`. kInvalidArgument names
/// what is missing: a pair's kernel without a solo run, two solo runs of one kernel, a time that is not above 0.
Result<InterferenceModel> Fit(std::span<const SoloRun> solos, std::span<const PairRun> pairs,
                              const DeviceCapacity& device, const PolicyParams& params = {});

}  // namespace weir::core
