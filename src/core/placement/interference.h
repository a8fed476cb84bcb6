// SPDX-License-Identifier: Apache-2.0
// How much slower runs get beside each other. Pairs of kernels that were measured, or seen, are looked up
// (pair_table.h); for others there is a line through what was measured and seen. gCloud gives no formula (section IV:
// local memory, global memory, threads and blocks count); this one is ours. Page: docs/placement.md
//
//   slowdown of a beside B  =  1 + Σ over b in B of added(a, b)
//   added(a, b)             =  as known of that pair, else  company + Σ over loads r of weight_r · a_r · b_r
//
// a_r, b_r: loads over what the device has. Two runs that fill a resource share it, so weight 1 is the first guess.
// What no load tells is company: on a device that runs kernels in turns all of it, and its weight is then about 1.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/placement/company.h"
#include "core/placement/drain.h"
#include "core/placement/load.h"
#include "core/placement/pair_table.h"
#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array kInterferenceParams{
    PolicyParam{"prior_weight", "", 1.0, 0.0, 100.0,
                "of each load before anything was measured (two that fill a resource share it)"},
    PolicyParam{"prior_company", "", 0.01, 0.0, 100.0, "of each neighbour, likewise (ours: breaks ties towards few)"},
    PolicyParam{"prior_runs", "runs", 0.01, 1e-6, 1e6,
                "so many measured runs that fill the device count as much as the first guess (ours: few)"},
    PolicyParam{"half_life_runs", "runs", 1000.0, 0.0, 1e9,
                "after so many observations (of a pair: of that pair) an old one counts half; 0: for ever (ours)"},
    PolicyParam{
        "turns_at", "", 0.9, 0.0, 100.0,
        "where, by the line, each neighbour slows a run by so many times its time alone, they only take turns (1: "
        "two take as long as one after the other), and it is not started beside them; of known pairs: where "
        "nothing at all is gained; 0: it always is (ours)"},
    PolicyParam{
        "turns_deep", "runs", 2.0, 1.0, 1000.0,
        "but so many of them are started at once: while one copies, checks or is fetched another computes (ours)"},
    PolicyParam{
        "near", "", 1.1, 1.0, 100.0,
        "devices that are done in so many times the time of the one that is done first are as good, and of these "
        "the one is taken where least is lost; where even that one is later than waiting for the next device to "
        "be done, by more than that, it waits (ours: predictions are hardly better than that)"},
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
  double slowdown = 1;      // of the run, while all of it is there: its time over its time alone
  double lost_s = 0;        // seconds that all together lose by it: the run itself, and what runs there already
  double done_s = 0;        // until all of them are done, if all start now
  double before_s = 0;      // until those that are there are done without it, likewise
  std::uint32_t known = 0;  // runs beside which it is known, as a pair, what they add to its time
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

  /// A run that is done: for the line, and where it had nothing beside it but runs of one known work, for that pair.
  void Observe(const RunNeed& run, const RunSeen& seen, const DeviceCapacity& device);

  /// A run with its neighbours, what each adds to the others looked up. Says nothing until Meet has filled it.
  struct Meeting {
    std::array<DrainedKind, kDrainedMax> kinds;
    std::size_t there;  // kinds of neighbours; the run comes after them
    double slowdown;    // as in Interference, and `known`
    std::uint32_t known;
    /// All of them; those that were there without it.
    [[nodiscard]] Drained All() const { return Drain(std::span(kinds).first(there + 1)); }
    [[nodiscard]] Drained Before() const { return Drain(std::span(kinds).first(there)); }
    [[nodiscard]] Interference Predicted(const Drained& all) const;
  };
  void Meet(const RunNeed& run, std::span<const Neighbours> beside, const DeviceCapacity& device,
            Meeting& meeting) const;
  /// The same at once. `beside`: as ClusterState::NeighboursOf.
  [[nodiscard]] Interference Predict(const RunNeed& run, std::span<const Neighbours> beside,
                                     const DeviceCapacity& device) const;
  /// Nothing is gained by running it there before others have ended: it and its `runs` neighbours would only take
  /// turns.
  [[nodiscard]] bool TakesTurns(const Interference& predicted, const RunNeed& run, std::uint32_t runs) const;
  /// It is worth waiting for the device that is done first, `first_s` from now. By the line alone it isn't before
  /// `turns_deep` are there.
  [[nodiscard]] bool WaitsFor(double first_s, const Interference& predicted, const RunNeed& run,
                              std::uint32_t runs) const {
    return turns_at_ > 0 && (predicted.known == runs || runs >= turns_deep_) &&
           !AsGood(predicted.done_s, first_s + static_cast<double>(run.alone_ms) * 1e-3);
  }
  /// To be done in `done_s` is as good as in `least_s`.
  [[nodiscard]] bool AsGood(double done_s, double least_s) const { return done_s <= near_ * least_s; }
  /// What each load adds to the run's slowdown, and company, by the line: beside those of which no pair is known.
  [[nodiscard]] Weights PartsOf(const RunNeed& run, std::span<const Neighbours> beside,
                                const DeviceCapacity& device) const;

  [[nodiscard]] const Weights& weights() const { return weights_; }
  /// Observations, old ones counted less; and how far off the line is from them, root of the mean square.
  [[nodiscard]] double observations() const { return observations_; }
  [[nodiscard]] double ErrorRms() const;
  [[nodiscard]] const PairTable& pairs() const { return pairs_; }

 private:
  friend Result<InterferenceModel> Fit(std::span<const SoloRun>, std::span<const PairRun>, const DeviceCapacity&,
                                       const PolicyParams&);
  void Add(const Weights& x, double y);
  void LearnPair(std::uint64_t work, std::uint64_t beside, double neighbours, double slowdown);
  void Solve();

  double prior_runs_ = 0, keep_ = 1, turns_at_ = 0, turns_deep_ = 1, near_ = 1;
  Weights prior_{};
  // Σ x·xᵀ, Σ x·y, Σ y² of what was observed.
  std::array<Weights, kWeights> xx_{};
  Weights xy_{};
  double yy_ = 0, observations_ = 0;
  Weights weights_{};
  PairTable pairs_;
};

/// Least squares over both runs of every pair, no weight below 0; and each pair of known works. All on devices like
/// `device`. kInvalidArgument names what is missing: a pair's kernel without a solo run, two solo runs of one kernel, a
/// time that is not above 0.
Result<InterferenceModel> Fit(std::span<const SoloRun> solos, std::span<const PairRun> pairs,
                              const DeviceCapacity& device, const PolicyParams& params = {});

}  // namespace weir::core
