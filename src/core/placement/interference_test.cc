// SPDX-License-Identifier: Apache-2.0
#include "core/placement/interference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weir::core {
namespace {

using LoadWeights = InterferenceModel::Weights;

const DeviceCapacity kHundred{.memory = MiB(6'144), .loads = {100, 100, 100, 100}};

RunNeed NeedWith(Loads loads, std::uint64_t alone_ms = 1'000) { return {MiB(64), loads, alone_ms}; }

/// Each run as a separate neighbour.
std::vector<Neighbours> Beside(std::span<const RunNeed> runs) {
  std::vector<Neighbours> beside;
  for (const RunNeed& run : runs) beside.push_back({&run, 1});
  return beside;
}

std::array<double, kLoadKinds> LoadsOf(std::span<const RunNeed> runs) {
  std::array<double, kLoadKinds> sum{};
  for (const RunNeed& run : runs)
    for (std::size_t i = 0; i < kLoadKinds; ++i) sum[i] += static_cast<double>(run.loads[i]);
  return sum;
}

/// The slowdown of `a` beside one other run by `weights`, computed directly.
double TrueSlowdown(const LoadWeights& weights, const RunNeed& a, const RunNeed& b) {
  double sum = 1 + weights[kLoadKinds];
  for (std::size_t i = 0; i < kLoadKinds; ++i)
    sum += weights[i] * static_cast<double>(a.loads[i]) / 100 * static_cast<double>(b.loads[i]) / 100;
  return sum;
}

rc::Gen<RunNeed> AnyNeed() {
  return rc::gen::map(rc::gen::pair(rc::gen::container<std::array<int, kLoadKinds>>(rc::gen::inRange(0, 101)),
                                    rc::gen::inRange(1, 9'000)),
                      [](const auto& drawn) {
                        RunNeed need = NeedWith({}, static_cast<std::uint64_t>(drawn.second));
                        for (std::size_t i = 0; i < kLoadKinds; ++i)
                          need.loads[i] = static_cast<std::uint64_t>(drawn.first[i]);
                        return need;
                      });
}

TEST(Interference, BeforeAnythingIsMeasuredTwoThatFillAResourceHalveEachOther) {
  const InterferenceModel model;
  const RunNeed full = NeedWith({0, 100, 0, 0});
  const Interference two = model.Predict(full, Beside(std::span(&full, 1)), kHundred);
  EXPECT_NEAR(two.slowdown, 2.01, 1e-12);
  EXPECT_NEAR(two.lost_s, 2.02, 1e-12);  // a second each, and a hundredth for company
  EXPECT_EQ(model.Predict(full, {}, kHundred).slowdown, 1);
}

TEST(Interference, SaysWhichLoadIsMostOfIt) {
  const InterferenceModel model;
  const RunNeed run = NeedWith({50, 10, 0, 0}), other = NeedWith({50, 100, 100, 100});
  const LoadWeights parts = model.PartsOf(run, Beside(std::span(&other, 1)), kHundred);
  EXPECT_NEAR(parts[0], 0.25, 1e-12);
  EXPECT_NEAR(parts[1], 0.10, 1e-12);
  EXPECT_EQ(parts[2], 0);
}

TEST(Interference, RefusesInvalidMeasurements) {
  const SoloRun a{"a", NeedWith({1, 1, 1, 1}), 1.0};
  const auto message = [](const auto& result) { return result ? std::string("accepted") : result.error().message; };
  EXPECT_EQ(message(Fit(std::array{a, a}, {}, kHundred)), "kernel 'a' has two solo runs: give one");
  EXPECT_EQ(message(Fit(std::array{a}, std::array{PairRun{"a", "b", 1, 1}}, kHundred)),
            "kernel 'b' has no solo run: measure it alone, too");
  EXPECT_EQ(message(Fit(std::array{a}, std::array{PairRun{"a", "a", 0, 1}}, kHundred)),
            "kernels 'a' and 'a' took 0 and 1 s together: measure them again");
  EXPECT_FALSE(Fit(std::array{SoloRun{"a", a.need, std::nan("")}}, {}, kHundred));
  EXPECT_FALSE(Fit(std::array{a}, {}, kHundred, {{"prior_weight", -1.0}}));
  EXPECT_FALSE(Fit(std::array{a}, {}, DeviceCapacity{.loads = {0, 1, 1, 1}}));
}

TEST(Interference, IgnoresImpossibleObservations) {
  InterferenceModel model;
  const LoadWeights before = model.weights();
  const RunNeed run = NeedWith({50, 50, 50, 50});
  model.Observe(run, {50, 0, 0, 0}, 1, kHundred, std::nan(""));
  model.Observe(run, {50, 0, 0, 0}, 1, kHundred, 0);
  model.Observe(run, {-1, 0, 0, 0}, 1, kHundred, 2);
  model.Observe(run, {50, 0, 0, 0}, std::numeric_limits<double>::infinity(), kHundred, 2);
  EXPECT_EQ(model.weights(), before);
  EXPECT_EQ(model.observations(), 0);
}

TEST(Interference, ForgetsOldObservations) {
  InterferenceModel model(CheckInterferenceParams({{"half_life_runs", 10.0}}).value());
  const RunNeed run = NeedWith({0, 100, 0, 0});
  for (int i = 0; i < 50; ++i) model.Observe(run, {0, 100, 0, 0}, 0, kHundred, 3);
  EXPECT_NEAR(model.weights()[1], 2, 0.01);
  for (int i = 0; i < 100; ++i) model.Observe(run, {0, 100, 0, 0}, 0, kHundred, 1.5);
  EXPECT_NEAR(model.weights()[1], 0.5, 0.01);
}

TEST(Interference, EveryParameterHasARangeThatHoldsItsDefault) {
  for (const PolicyParam& param : kInterferenceParams) {
    EXPECT_LE(param.min, param.preset) << param.name;
    EXPECT_GE(param.max, param.preset) << param.name;
    EXPECT_FALSE(param.summary.empty()) << param.name;
  }
}

TEST(Interference, RecognisesTurnsByPairs) {
  // Two kernels of the four on one unit of a processor, with any loads: both together take as long as in sequence.
  std::vector<SoloRun> solos;
  std::vector<PairRun> pairs;
  for (const auto& [loads, seconds_alone] : {std::pair(Loads{50, 0, 6, 12}, 0.065),
                                             {Loads{0, 0, 100, 100}, 0.26},
                                             {Loads{0, 3, 100, 100}, 0.34},
                                             {Loads{0, 23, 100, 100}, 0.15}})
    solos.push_back({fmt::format("k{}", solos.size()), NeedWith(loads), seconds_alone});
  for (std::size_t a = 0; a < solos.size(); ++a)
    for (std::size_t b = a; b < solos.size(); ++b)
      pairs.push_back({solos[a].kernel, solos[b].kernel, 2 * solos[a].seconds, 2 * solos[b].seconds});
  const InterferenceModel turns = Fit(solos, pairs, kHundred, {{"turns_deep", 1.0}}).value();
  const InterferenceModel two_deep = Fit(solos, pairs, kHundred).value();
  for (PairRun& pair : pairs) {  // an eighth more than alone is a gain
    pair.first_s *= 0.56;
    pair.second_s *= 0.56;
  }
  const InterferenceModel at_once = Fit(solos, pairs, kHundred).value();
  for (const SoloRun& a : solos)
    for (const SoloRun& b : solos) {
      const auto waits = [&](const InterferenceModel& model, std::uint32_t runs) {
        const Neighbours beside{&b.need, runs};
        return model.TakesTurns(model.Predict(a.need, std::span(&beside, 1), kHundred), a.need, runs);
      };
      EXPECT_TRUE(waits(turns, 1)) << a.kernel << b.kernel;
      EXPECT_FALSE(waits(at_once, 1)) << a.kernel << b.kernel;
      EXPECT_FALSE(waits(two_deep, 1)) << a.kernel << b.kernel;
      EXPECT_TRUE(waits(two_deep, 2)) << a.kernel << b.kernel;
      EXPECT_FALSE(turns.TakesTurns(turns.Predict(a.need, {}, kHundred), a.need, 0));
    }
}

// -- Pairs that are known --------------------------------------------------------------------------------------------

RunNeed WorkNeed(std::uint64_t work, std::uint64_t alone_ms) { return {MiB(1), {0, 50, 50, 50}, alone_ms, work}; }

/// Kernel 2 slows kernel 1 ten times and is hardly slowed itself; two runs of one kind lose nothing.
InterferenceModel TwoKnown() {
  const std::array solos{SoloRun{"short", WorkNeed(1, 100), 0.1}, SoloRun{"long", WorkNeed(2, 1'000), 1}};
  const std::array pairs{PairRun{"short", "long", 1, 1.1}, PairRun{"short", "short", 0.1, 0.1},
                         PairRun{"long", "long", 1, 1}};
  return Fit(solos, pairs, kHundred).value();
}

TEST(Interference, UsesTheMeasurementOfAKnownPair) {
  const InterferenceModel model = TwoKnown();
  const RunNeed brief = WorkNeed(1, 100), lasting = WorkNeed(2, 1'000);
  const Interference predicted = model.Predict(brief, Beside(std::span(&lasting, 1)), kHundred);
  EXPECT_NEAR(predicted.slowdown, 10, 1e-5);
  EXPECT_EQ(predicted.known, 1U);
  // Both run until the short one ends at 1 s; of the other, 1 - 1 / 1.1 s remain.
  EXPECT_NEAR(predicted.done_s, 2 - 1 / 1.1, 1e-5);
  EXPECT_NEAR(predicted.before_s, 1, 1e-9);
  EXPECT_NEAR(predicted.lost_s, 0.9 + (1 - 1 / 1.1), 1e-5);
  // The difference is the error of the linear model, which doesn't know the kernels.
  RunNeed unknown = brief;
  unknown.work = 0;
  EXPECT_EQ(model.Predict(unknown, Beside(std::span(&lasting, 1)), kHundred).known, 0U);
  EXPECT_LT(model.Predict(unknown, Beside(std::span(&lasting, 1)), kHundred).slowdown, 6);
}

TEST(Interference, CombinesKnownPairsWithTheFit) {
  const InterferenceModel model = TwoKnown();
  const RunNeed brief = WorkNeed(1, 100), unknown = WorkNeed(7, 100);
  const std::array beside{WorkNeed(2, 1'000), unknown};
  const double line = model.Predict(brief, Beside(std::span(&unknown, 1)), kHundred).slowdown - 1;
  const Interference predicted = model.Predict(brief, Beside(beside), kHundred);
  EXPECT_NEAR(predicted.slowdown, 10 + line, 1e-5);
  EXPECT_EQ(predicted.known, 1U);
  const LoadWeights parts = model.PartsOf(brief, Beside(beside), kHundred);
  EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), line, 1e-9);
}

TEST(Interference, WithKnownPairsItWaitsOnlyWithoutAnyGain) {
  const RunNeed one = WorkNeed(1, 1'000), other = WorkNeed(2, 1'000);
  for (const double slower : {1.9, 1.99, 2.0, 2.1}) {
    InterferenceModel model(CheckInterferenceParams({{"turns_deep", 1.0}}).value());
    model.Observe(one, {.slowdown = slower, .neighbours = 1, .only = 2}, kHundred);
    model.Observe(other, {.slowdown = slower, .neighbours = 1, .only = 1}, kHundred);
    const Interference predicted = model.Predict(one, Beside(std::span(&other, 1)), kHundred);
    EXPECT_EQ(model.TakesTurns(predicted, one, 1), slower >= 2) << slower;
  }
}

TEST(Interference, LearnsAPairFromARunWithOneNeighbour) {
  InterferenceModel model;
  const RunNeed one = WorkNeed(1, 1'000);
  model.Observe(one, {.slowdown = 4, .neighbours = 1.5, .only = 2}, kHundred);
  EXPECT_NEAR(model.pairs().Added(1, 2), 2, 1e-6);
  EXPECT_EQ(model.pairs().Added(2, 1), PairTable::kUnknown);
  model.Observe(one, {.slowdown = 4, .neighbours = 1, .only = 0}, kHundred);
  model.Observe(WorkNeed(0, 1'000), {.slowdown = 4, .neighbours = 1, .only = 2}, kHundred);
  EXPECT_EQ(model.pairs().pairs(), 1U);
}

RC_GTEST_PROP(InterferenceLaws, RecoversTheTrueWeights, ()) {
  LoadWeights truth{};
  for (double& one : truth) one = *rc::gen::inRange(0, 300) / 100.0;
  std::vector<SoloRun> solos;
  std::vector<PairRun> pairs;
  // One kernel of each load alone, so that every weight can be determined, and further random ones.
  for (std::size_t i = 0; i < kLoadKinds; ++i) {
    Loads loads{};
    loads[i] = 100;
    solos.push_back({fmt::format("only-{}", i), NeedWith(loads), 2.0});
  }
  solos.push_back({"none", NeedWith({}), 1.0});
  for (const RunNeed& need : *rc::gen::container<std::vector<RunNeed>>(AnyNeed()))
    solos.push_back({fmt::format("drawn-{}", solos.size()), need, 0.5});
  for (const SoloRun& a : solos)
    for (const SoloRun& b : solos)
      pairs.push_back({a.kernel, b.kernel, a.seconds * TrueSlowdown(truth, a.need, b.need),
                       b.seconds * TrueSlowdown(truth, b.need, a.need)});
  const auto model = Fit(solos, pairs, kHundred, {{"prior_runs", 1e-6}});
  RC_ASSERT(model.has_value());
  for (std::size_t i = 0; i < truth.size(); ++i) RC_ASSERT(std::abs(model->weights()[i] - truth[i]) < 1e-4);
  RC_ASSERT(model->ErrorRms() < 1e-4);
}

RC_GTEST_PROP(InterferenceLaws, TheFitIsTheNonNegativeLeastSquares, ()) {
  struct Seen {
    LoadWeights x;
    double y;
  };
  InterferenceModel model(CheckInterferenceParams({{"half_life_runs", 0.0}}).value());
  std::vector<Seen> all;
  for (const auto& [run, other] :
       *rc::gen::container<std::vector<std::pair<RunNeed, RunNeed>>>(rc::gen::pair(AnyNeed(), AnyNeed()))) {
    const double slowdown = *rc::gen::inRange(50, 600) / 100.0;
    model.Observe(run, LoadsOf(std::array{other}), 1, kHundred, slowdown);
    Seen seen{{}, slowdown - 1};
    for (std::size_t i = 0; i < kLoadKinds; ++i)
      seen.x[i] = static_cast<double>(run.loads[i]) / 100 * static_cast<double>(other.loads[i]) / 100;
    seen.x[kLoadKinds] = 1;
    all.push_back(seen);
  }
  // Karush-Kuhn-Tucker: slope zero for free weights, not negative for weights that are held at 0.
  const LoadWeights w = model.weights();
  for (std::size_t i = 0; i < w.size(); ++i) {
    double slope = 0.01 * (w[i] - (i == kLoadKinds ? 0.01 : 1.0));
    for (const Seen& seen : all) {
      double off = -seen.y;
      for (std::size_t j = 0; j < w.size(); ++j) off += w[j] * seen.x[j];
      slope += off * seen.x[i];
    }
    RC_ASSERT(w[i] >= 0);
    RC_ASSERT(slope > -1e-6 * static_cast<double>(all.size() + 1));
    if (w[i] > 0) RC_ASSERT(slope < 1e-6 * static_cast<double>(all.size() + 1));
  }
}

RC_GTEST_PROP(InterferenceLaws, BatchFitEqualsIncrementalLearning, ()) {
  std::vector<SoloRun> solos;
  for (const RunNeed& need : *rc::gen::nonEmpty(rc::gen::container<std::vector<RunNeed>>(AnyNeed())))
    solos.push_back({fmt::format("k{}", solos.size()), need, *rc::gen::inRange(1, 100) / 10.0});
  std::vector<PairRun> pairs;
  InterferenceModel learned(CheckInterferenceParams({{"half_life_runs", 0.0}}).value());
  for (const SoloRun& a : solos) {
    const SoloRun& b = *rc::gen::elementOf(solos);
    const double slower_a = *rc::gen::inRange(100, 300) / 100.0, slower_b = *rc::gen::inRange(100, 300) / 100.0;
    pairs.push_back({a.kernel, b.kernel, a.seconds * slower_a, b.seconds * slower_b});
    learned.Observe(a.need, LoadsOf(std::array{b.need}), 1, kHundred, pairs.back().first_s / a.seconds);
    learned.Observe(b.need, LoadsOf(std::array{a.need}), 1, kHundred, pairs.back().second_s / b.seconds);
  }
  const auto fitted = Fit(solos, pairs, kHundred);
  RC_ASSERT(fitted->weights() == learned.weights());
  RC_ASSERT(fitted->observations() == learned.observations());
}

RC_GTEST_PROP(InterferenceLaws, NeighboursEffectsAdd, ()) {
  auto there = *rc::gen::resize(8, rc::gen::container<std::vector<RunNeed>>(AnyNeed()));
  if (there.size() > kKindsMax) there.resize(kKindsMax);
  RunNeed run = *AnyNeed();
  InterferenceModel model;
  run.work = 1;
  for (RunNeed& other : there) {
    other.work = static_cast<std::uint64_t>(*rc::gen::inRange(0, 4));
    if (*rc::gen::inRange(0, 2) == 0)
      model.Observe(run, {.slowdown = *rc::gen::inRange(100, 900) / 100.0, .neighbours = 1, .only = other.work},
                    kHundred);
  }
  const Interference predicted = model.Predict(run, Beside(there), kHundred);
  double slower = 0;
  std::uint32_t known = 0;
  for (const RunNeed& other : there) {
    const double pair = model.pairs().Added(1, other.work);
    known += pair == PairTable::kUnknown ? 0 : 1;
    slower += pair == PairTable::kUnknown ? TrueSlowdown(model.weights(), run, other) - 1 : pair;
  }
  RC_ASSERT(std::abs(predicted.slowdown - 1 - slower) < 1e-9 * (1 + slower));
  RC_ASSERT(predicted.known == known);
  RC_ASSERT(predicted.done_s >= predicted.before_s - 1e-9);
}

}  // namespace
}  // namespace weir::core
