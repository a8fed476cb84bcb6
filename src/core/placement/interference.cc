// SPDX-License-Identifier: Apache-2.0
#include "core/placement/interference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "core/placement/drain.h"

namespace weir::core {
namespace {

constexpr std::size_t kCompany = kLoadKinds;  // index of company in the weights
using Square = std::array<InterferenceModel::Weights, InterferenceModel::kWeights>;

double OverCapacity(double load, const DeviceCapacity& device, std::size_t kind) {
  return load / static_cast<double>(device.loads[kind]);
}

/// Solves m·w = v for the weights in `free` (bits) by elimination with pivots; the others are 0. Returns none if
/// singular.
std::optional<InterferenceModel::Weights> SolveFor(unsigned free, const Square& m,
                                                   const InterferenceModel::Weights& v) {
  std::array<std::size_t, InterferenceModel::kWeights> at{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < InterferenceModel::kWeights; ++i)
    if ((free >> i & 1U) != 0) at[n++] = i;
  std::array<std::array<double, InterferenceModel::kWeights + 1>, InterferenceModel::kWeights> rows{};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) rows[i][j] = m[at[i]][at[j]];
    rows[i][n] = v[at[i]];
  }
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t best = column;
    for (std::size_t row = column + 1; row < n; ++row)
      if (std::abs(rows[row][column]) > std::abs(rows[best][column])) best = row;
    if (std::abs(rows[best][column]) < std::numeric_limits<double>::min()) return std::nullopt;
    std::swap(rows[column], rows[best]);
    for (std::size_t row = 0; row < n; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (std::size_t j = column; j <= n; ++j) rows[row][j] -= factor * rows[column][j];
    }
  }
  InterferenceModel::Weights weights{};
  for (std::size_t i = 0; i < n; ++i) weights[at[i]] = rows[i][n] / rows[i][i];
  return weights;
}

/// wᵀ·m·w − 2·v·w: the squared error without its constant part.
double ErrorOf(const InterferenceModel::Weights& w, const Square& m, const InterferenceModel::Weights& v) {
  double sum = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    sum -= 2 * v[i] * w[i];
    for (std::size_t j = 0; j < w.size(); ++j) sum += w[i] * m[i][j] * w[j];
  }
  return sum;
}

const SoloRun* SoloOf(std::span<const SoloRun> solos, std::string_view kernel) {
  for (const SoloRun& solo : solos)
    if (solo.kernel == kernel) return &solo;
  return nullptr;
}

/// The explaining variables of one observation: for each load the product of both sides, and the number of neighbours.
InterferenceModel::Weights RowOf(const RunNeed& run, const std::array<double, kLoadKinds>& beside, double neighbours,
                                 const DeviceCapacity& device) {
  InterferenceModel::Weights x{};
  for (std::size_t i = 0; i < kLoadKinds; ++i)
    x[i] = OverCapacity(static_cast<double>(run.loads[i]), device, i) * OverCapacity(beside[i], device, i);
  x[kCompany] = neighbours;
  return x;
}

std::array<double, kLoadKinds> AsNumbers(const Loads& loads) {
  std::array<double, kLoadKinds> numbers{};
  for (std::size_t i = 0; i < kLoadKinds; ++i) numbers[i] = static_cast<double>(loads[i]);
  return numbers;
}

}  // namespace

Result<PolicyParams> CheckInterferenceParams(const PolicyParams& given) {
  return CheckParams({"interference", "", kInterferenceParams, nullptr}, given);
}

InterferenceModel::InterferenceModel(const PolicyParams& checked) {
  const double half_life = checked.at("half_life_runs");
  prior_runs_ = checked.at("prior_runs");
  turns_at_ = checked.at("turns_at");
  turns_deep_ = checked.at("turns_deep");
  near_ = checked.at("near");
  keep_ = half_life > 0 ? std::exp2(-1 / half_life) : 1;
  prior_.fill(checked.at("prior_weight"));
  prior_[kCompany] = checked.at("prior_company");
  weights_ = prior_;
  pairs_ = PairTable(keep_);
}

void InterferenceModel::Add(const Weights& x, double y) {
  for (std::size_t i = 0; i < kWeights; ++i) {
    for (std::size_t j = 0; j < kWeights; ++j) xx_[i][j] += x[i] * x[j];
    xy_[i] += x[i] * y;
  }
  yy_ += y * y;
  observations_ += 1;
}

void InterferenceModel::Observe(const RunNeed& run, const std::array<double, kLoadKinds>& beside, double neighbours,
                                const DeviceCapacity& device, double slowdown) {
  const Weights x = RowOf(run, beside, neighbours, device);
  if (!std::isfinite(slowdown) || slowdown <= 0) return;
  for (const double one : x)
    if (!std::isfinite(one) || one < 0) return;
  for (std::size_t i = 0; i < kWeights; ++i) {
    for (double& one : xx_[i]) one *= keep_;
    xy_[i] *= keep_;
  }
  yy_ *= keep_;
  observations_ *= keep_;
  Add(x, slowdown - 1);
  Solve();
}

/// Least squares with no weight below 0. There are 32 subsets of weights that can be fixed at 0. Since the error is
/// convex, the best of the subsets whose free weights are all at least 0 is the minimum.
void InterferenceModel::Solve() {
  Square m = xx_;
  Weights v = xy_;
  for (std::size_t i = 0; i < kWeights; ++i) {
    m[i][i] += prior_runs_;
    v[i] += prior_runs_ * prior_[i];
  }
  double least = std::numeric_limits<double>::infinity();
  for (unsigned free = 0; free < 1U << kWeights; ++free) {
    const auto weights = SolveFor(free, m, v);
    if (!weights) continue;
    bool allowed = true;
    for (const double weight : *weights) allowed = allowed && weight >= 0;
    const double error = ErrorOf(*weights, m, v);
    if (!allowed || !(error < least)) continue;
    least = error;
    weights_ = *weights;
  }
}

double InterferenceModel::ErrorRms() const {
  if (observations_ <= 0) return 0;
  return std::sqrt(std::max(0.0, yy_ + ErrorOf(weights_, xx_, xy_)) / observations_);
}

void InterferenceModel::LearnPair(std::uint64_t work, std::uint64_t beside, double neighbours, double slowdown) {
  if (slowdown > 0 && neighbours > 0) pairs_.Observe(work, beside, (slowdown - 1) / neighbours);
}

void InterferenceModel::Observe(const RunNeed& run, const RunSeen& seen, const DeviceCapacity& device) {
  Observe(run, seen.beside, seen.neighbours, device, seen.slowdown);
  LearnPair(run.work, seen.only, seen.neighbours, seen.slowdown);
}

InterferenceModel::Weights InterferenceModel::PartsOf(const RunNeed& run, std::span<const Neighbours> beside,
                                                      const DeviceCapacity& device) const {
  std::array<double, kLoadKinds> loads{};
  double runs = 0;
  for (const Neighbours& some : beside) {
    if (pairs_.Added(run.work, some.need->work) != PairTable::kUnknown) continue;
    runs += some.runs;
    for (std::size_t i = 0; i < kLoadKinds; ++i) loads[i] += static_cast<double>(some.need->loads[i]) * some.runs;
  }
  Weights parts = RowOf(run, loads, runs, device);
  for (std::size_t i = 0; i < kWeights; ++i) parts[i] *= weights_[i];
  return parts;
}

void InterferenceModel::Meet(const RunNeed& run, std::span<const Neighbours> beside, const DeviceCapacity& device,
                             Meeting& meeting) const {
  // The run comes last, so that the neighbours form a prefix.
  const std::size_t there = beside.size();
  WEIR_CHECK(there < kDrainedMax);
  std::array<DrainedKind, kDrainedMax>& kinds = meeting.kinds;
  std::array<std::size_t, kDrainedMax> places;
  std::array<const RunNeed*, kDrainedMax> needs;
  for (std::size_t i = 0; i <= there; ++i) {
    needs[i] = i < there ? beside[i].need : &run;
    kinds[i].alone_s = static_cast<double>(needs[i]->alone_ms) * 1e-3;
    kinds[i].runs = i < there ? beside[i].runs : 1;
    places[i] = pairs_.PlaceOf(needs[i]->work);
  }
  meeting.there = there;
  meeting.known = 0;
  for (std::size_t i = 0; i <= there; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double to_i = pairs_.AddedAt(places[i], places[j]), to_j = i == j ? to_i : pairs_.AddedAt(places[j], places[i]);
      if (to_i != PairTable::kUnknown && i == there && j < there) meeting.known += beside[j].runs;
      if (to_i == PairTable::kUnknown || to_j == PairTable::kUnknown) {
        double line = weights_[kCompany];  // the same in both directions
        for (std::size_t r = 0; r < kLoadKinds; ++r)
          line += weights_[r] * OverCapacity(static_cast<double>(needs[i]->loads[r]), device, r) *
                  OverCapacity(static_cast<double>(needs[j]->loads[r]), device, r);
        if (to_i == PairTable::kUnknown) to_i = line;
        if (to_j == PairTable::kUnknown) to_j = line;
      }
      kinds[i].added[j] = to_i;
      kinds[j].added[i] = to_j;
    }
  meeting.slowdown = 1;
  for (std::size_t j = 0; j < there; ++j) meeting.slowdown += kinds[there].added[j] * kinds[j].runs;
}

Interference InterferenceModel::Meeting::Predicted(const Drained& all) const {
  const Drained before = Before();
  return {.slowdown = slowdown,
          .lost_s = all.lost_s - before.lost_s,
          .done_s = all.done_s,
          .before_s = before.done_s,
          .known = known};
}

Interference InterferenceModel::Predict(const RunNeed& run, std::span<const Neighbours> beside,
                                        const DeviceCapacity& device) const {
  Meeting meeting;
  Meet(run, beside, device, meeting);
  return meeting.Predicted(meeting.All());
}

bool InterferenceModel::TakesTurns(const Interference& predicted, const RunNeed& run, std::uint32_t runs) const {
  if (turns_at_ <= 0 || runs < turns_deep_) return false;
  if (predicted.known == runs) return predicted.done_s >= predicted.before_s + static_cast<double>(run.alone_ms) * 1e-3;
  return predicted.slowdown - 1 >= turns_at_ * runs;
}

Result<InterferenceModel> Fit(std::span<const SoloRun> solos, std::span<const PairRun> pairs,
                              const DeviceCapacity& device, const PolicyParams& params) {
  WEIR_TRY(const PolicyParams checked, CheckInterferenceParams(params));
  WEIR_TRY_STATUS(CheckDevice(device));
  for (const SoloRun& solo : solos) {
    WEIR_TRY_STATUS(CheckNeed(solo.need));
    if (SoloOf(solos, solo.kernel) != &solo)
      return Fail(Errc::kInvalidArgument, fmt::format("kernel '{}' has two solo runs: give one", solo.kernel));
    if (!(solo.seconds > 0) || !std::isfinite(solo.seconds))
      return Fail(Errc::kInvalidArgument,
                  fmt::format("kernel '{}' took {} s alone: measure it again", solo.kernel, solo.seconds));
  }
  InterferenceModel model(checked);
  for (const PairRun& pair : pairs) {
    const SoloRun* first = SoloOf(solos, pair.first);
    const SoloRun* second = SoloOf(solos, pair.second);
    if (first == nullptr || second == nullptr)
      return Fail(Errc::kInvalidArgument, fmt::format("kernel '{}' has no solo run: measure it alone, too",
                                                      first == nullptr ? pair.first : pair.second));
    if (!(pair.first_s > 0) || !(pair.second_s > 0) || !std::isfinite(pair.first_s + pair.second_s))
      return Fail(Errc::kInvalidArgument,
                  fmt::format("kernels '{}' and '{}' took {} and {} s together: measure them again", pair.first,
                              pair.second, pair.first_s, pair.second_s));
    const auto row = [&](const SoloRun& one, const SoloRun& other) {
      return RowOf(one.need, AsNumbers(other.need.loads), 1, device);
    };
    model.Add(row(*first, *second), pair.first_s / first->seconds - 1);
    model.Add(row(*second, *first), pair.second_s / second->seconds - 1);
    model.LearnPair(first->need.work, second->need.work, 1, pair.first_s / first->seconds);
    model.LearnPair(second->need.work, first->need.work, 1, pair.second_s / second->seconds);
  }
  model.Solve();
  return model;
}

}  // namespace weir::core
