// SPDX-License-Identifier: Apache-2.0
#include "core/placement/interference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::core {
namespace {

constexpr std::size_t kCompany = kLoadKinds;  // its place among the weights
using Square = std::array<InterferenceModel::Weights, InterferenceModel::kWeights>;

double OverCapacity(double load, const DeviceCapacity& device, std::size_t kind) {
  return load / static_cast<double>(device.loads[kind]);
}

/// Solves m·w = v for the weights in `free` (bits), the others being 0, by elimination with pivots; none: singular.
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

/// wᵀ·m·w − 2·v·w: what least squares makes least, but for a constant.
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
  keep_ = half_life > 0 ? std::exp2(-1 / half_life) : 1;
  prior_.fill(checked.at("prior_weight"));
  prior_[kCompany] = checked.at("prior_company");
  weights_ = prior_;
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

/// Least squares with no weight below 0. There are 32 ways to hold weights at 0; the best of those whose free weights
/// come out at 0 and above is the least of all, since the error is convex.
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

InterferenceModel::Weights InterferenceModel::PartsOf(const RunNeed& run, const DeviceState& beside,
                                                      const DeviceCapacity& device) const {
  Weights parts = RowOf(run, AsNumbers(beside.loads), beside.runs, device);
  for (std::size_t i = 0; i < kWeights; ++i) parts[i] *= weights_[i];
  return parts;
}

Interference InterferenceModel::Predict(const RunNeed& run, const DeviceState& beside,
                                        const DeviceCapacity& device) const {
  const auto alone_ms = static_cast<double>(run.alone_ms);
  double slower = weights_[kCompany] * beside.runs;
  // Of two that take turns each waits for the other as long as the shorter one takes.
  double lost_ms = weights_[kCompany] * 2 * std::min(alone_ms * beside.runs, static_cast<double>(beside.run_ms));
  for (std::size_t i = 0; i < kLoadKinds; ++i) {
    const double own = weights_[i] * OverCapacity(static_cast<double>(run.loads[i]), device, i);
    const double others = OverCapacity(static_cast<double>(beside.loads[i]), device, i);
    slower += own * others;
    // What the run does to one of them is what that one does to the run, over the other one's time.
    lost_ms += own * (alone_ms * others + OverCapacity(static_cast<double>(beside.load_ms[i]), device, i));
  }
  return {.slowdown = 1 + slower, .lost_s = lost_ms * 1e-3};
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
  }
  model.Solve();
  return model;
}

}  // namespace weir::core
