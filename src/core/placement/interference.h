// SPDX-License-Identifier: Apache-2.0
// Predicts how much slower runs get beside each other. Pairs of kernels that were measured or observed are looked up
// (pair_table.h). For other pairs a linear model is fitted to all measurements and observations. The formula is ours:
// gCloud only names the loads (section IV: local memory, global memory, threads and blocks). Page: docs/placement.md
//
//   slowdown of a beside B  =  1 + Σ over b in B of added(a, b)
//   added(a, b)             =  as known for that pair, else  company + Σ over loads r of weight_r · a_r · b_r
//
// a_r, b_r: loads divided by the device's capacity. Two runs that each fill a resource share it, so 1 is the first
// guess of a weight. `company` is the slowdown that no load explains. On a device that runs kernels in turns, `company`
// is the whole slowdown, and about 1.
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
                "initial weight of each load (two kernels that fill a resource share it)"},
    PolicyParam{"prior_company", "", 0.01, 0.0, 100.0,
                "initial weight of each neighbour (ours: breaks ties towards few)"},
    PolicyParam{"prior_runs", "runs", 0.01, 1e-6, 1e6,
                "number of measured runs that fill the device and weigh as much as the initial guess (ours: few)"},
    PolicyParam{"half_life_runs", "runs", 1000.0, 0.0, 1e9,
                "number of observations (of a pair: of that pair) after which an old one counts half; 0: never (ours)"},
    PolicyParam{"turns_at", "", 0.9, 0.0, 100.0,
                "predicted slowdown per neighbour, in times alone, at which runs only take turns (1: "
                "two take as long as one after the other), and it is not started beside them; of known pairs: where "
                "nothing at all is gained; 0: it always is (ours)"},
    PolicyParam{
        "turns_deep", "runs", 2.0, 1.0, 1000.0,
        "number of runs that take turns and are started at once: while one copies or checks, another computes (ours)"},
    PolicyParam{
        "near", "", 1.1, 1.0, 100.0,
        "devices that finish within this multiple of the earliest finish are equally good, and of these "
        "the one is taken where least is lost; where even that one is later than waiting for the next device to "
        "be done, by more than that, it waits (ours: predictions are hardly better than that)"},
};
/// Checks that the parameters are complete and in range, as CheckParams of a policy does.
Result<PolicyParams> CheckInterferenceParams(const PolicyParams& given);

/// Measurement of a kernel alone.
struct SoloRun {
  std::string kernel{};
  RunNeed need{};
  double seconds = 0;
};
/// Measurement of two kernels together: the time of each while the other is restarted continuously.
struct PairRun {
  std::string first{}, second{};
  double first_s = 0, second_s = 0;
};

/// Predicted interference of a run with the runs on a device.
struct Interference {
  double slowdown = 1;      // of the run, while all neighbours are present: its time over its time alone
  double lost_s = 0;        // seconds lost by the new run and by the runs on the device together
  double done_s = 0;        // time until all of them end, if all start now
  double before_s = 0;      // the same without the new run
  std::uint32_t known = 0;  // number of neighbours for which the pair is known
};

class InterferenceModel {
 public:
  static constexpr std::size_t kWeights = kLoadKinds + 1;  // indexed by LoadKind, then company
  using Weights = std::array<double, kWeights>;

  /// Starts with the first guess. `checked` comes from CheckInterferenceParams.
  explicit InterferenceModel(const PolicyParams& checked);
  InterferenceModel() : InterferenceModel(CheckInterferenceParams({}).value()) {}

  /// Records that a run took `slowdown` times its time alone beside loads `beside`, which exclude the run itself and
  /// are means over its time. Values that are not finite, and slowdowns that are not above 0, are ignored.
  void Observe(const RunNeed& run, const std::array<double, kLoadKinds>& beside, double neighbours,
               const DeviceCapacity& device, double slowdown);

  /// Records a completed run in the linear model, and in the pair table if all its neighbours did one known work.
  void Observe(const RunNeed& run, const RunSeen& seen, const DeviceCapacity& device);

  /// A run with its neighbours, and the slowdown of each by each other. Uninitialised until Meet fills it.
  struct Meeting {
    std::array<DrainedKind, kDrainedMax> kinds;
    std::size_t there;  // number of kinds of neighbours; the run's kind follows them
    double slowdown;    // as in Interference, like `known`
    std::uint32_t known;
    /// All() includes the run; Before() is without it.
    [[nodiscard]] Drained All() const { return Drain(std::span(kinds).first(there + 1)); }
    [[nodiscard]] Drained Before() const { return Drain(std::span(kinds).first(there)); }
    [[nodiscard]] Interference Predicted(const Drained& all) const;
  };
  void Meet(const RunNeed& run, std::span<const Neighbours> beside, const DeviceCapacity& device,
            Meeting& meeting) const;
  /// Meet and Meeting::Predicted in one call. `beside`: see ClusterState::NeighboursOf.
  [[nodiscard]] Interference Predict(const RunNeed& run, std::span<const Neighbours> beside,
                                     const DeviceCapacity& device) const;
  /// True if the run gains nothing by starting before others have ended: it would only take turns with its `runs`
  /// neighbours.
  [[nodiscard]] bool TakesTurns(const Interference& predicted, const RunNeed& run, std::uint32_t runs) const;
  /// True if the run had better wait for the device that is done first, `first_s` from now, than start as `predicted`
  /// beside `runs` runs. Where pairs are unknown, only if at least `turns_deep` runs are on the device.
  [[nodiscard]] bool WaitsFor(double first_s, const Interference& predicted, const RunNeed& run,
                              std::uint32_t runs) const {
    return turns_at_ > 0 && (predicted.known == runs || runs >= turns_deep_) &&
           !AsGood(predicted.done_s, first_s + static_cast<double>(run.alone_ms) * 1e-3);
  }
  /// True if completion in `done_s` counts as equal to completion in `least_s`.
  [[nodiscard]] bool AsGood(double done_s, double least_s) const { return done_s <= near_ * least_s; }
  /// Contribution of each load, and of company, to the run's slowdown by the linear model, for neighbours without a
  /// known pair.
  [[nodiscard]] Weights PartsOf(const RunNeed& run, std::span<const Neighbours> beside,
                                const DeviceCapacity& device) const;

  [[nodiscard]] const Weights& weights() const { return weights_; }
  /// Number of observations, with old ones weighted less; and the root mean square error of the linear model over them.
  [[nodiscard]] double observations() const { return observations_; }
  [[nodiscard]] double ErrorRms() const;
  [[nodiscard]] const PairTable& pairs() const { return pairs_; }

 private:
  friend Result<InterferenceModel> Fit(std::span<const SoloRun>, std::span<const PairRun>, const DeviceCapacity&,
                                       const PolicyParams&);
  /// Adds an observation to the sums below.
  void Add(const Weights& x, double y);
  void LearnPair(std::uint64_t work, std::uint64_t beside, double neighbours, double slowdown);
  /// Computes the weights from these sums.
  void Solve();

  // Parameters. `keep_`: factor for the weight of old observations at each new one
  double prior_runs_ = 0, keep_ = 1, turns_at_ = 0, turns_deep_ = 1, near_ = 1;
  Weights prior_{};
  // Σ x·xᵀ, Σ x·y, Σ y² of the observations.
  std::array<Weights, kWeights> xx_{};
  Weights xy_{};
  double yy_ = 0, observations_ = 0;
  Weights weights_{};
  PairTable pairs_;
};

/// Fits the linear model by least squares over both runs of every pair, with no weight below 0, and records each pair
/// of known works. All runs are on devices like `device`. kInvalidArgument names the fault: a pair's kernel without a
/// solo run, two solo runs of one kernel, a time that is not above 0.
Result<InterferenceModel> Fit(std::span<const SoloRun> solos, std::span<const PairRun> pairs,
                              const DeviceCapacity& device, const PolicyParams& params = {});

}  // namespace weir::core
