// SPDX-License-Identifier: Apache-2.0
// What ran beside a run. The linear model learns from the mean loads and the mean number of its neighbours. The pair
// table learns from a run whose neighbours all did the same work and were constant in number. Page: docs/placement.md
#pragma once

#include <algorithm>
#include <array>

#include "core/placement/load.h"

namespace weir::core {

/// Observation of a completed run.
struct RunSeen {
  double slowdown = 0;                      // its time over its time alone; 0: unknown
  std::array<double, kLoadKinds> beside{};  // loads of the neighbours, means over the run's time
  double neighbours = 0;                    // number of neighbours, mean over the run's time
  std::uint64_t only = 0;                   // the work of all neighbours, if equal and constant in number; otherwise 0
};

/// The runs on a device at one time.
class CompanyNow {
 public:
  void Add(const RunNeed& need) {
    ++runs_;
    for (std::size_t i = 0; i < kLoadKinds; ++i) loads_[i] += static_cast<double>(need.loads[i]);
    std::size_t at = 0;
    while (at < works_ && work_[at] != need.work) ++at;
    if (at == work_.size()) {
      more_ = true;
      return;
    }
    if (at == works_) work_[works_++] = need.work;
    ++count_[at];
  }

 private:
  friend class Company;
  /// The common work of all runs except one of `own`; 0: their work differs or is unknown.
  [[nodiscard]] std::uint64_t OthersWork(std::uint64_t own) const {
    if (more_) return 0;
    if (works_ == 1) return work_[0];
    const std::size_t mine = work_[0] == own ? 0 : 1;
    return count_[mine] == 1 ? work_[1 - mine] : 0;
  }

  std::uint32_t runs_ = 0;
  std::array<double, kLoadKinds> loads_{};
  std::array<std::uint64_t, 2> work_{};   // the first two works
  std::array<std::uint32_t, 2> count_{};  // runs of each
  std::size_t works_ = 0;                 // number of these works
  bool more_ = false;                     // there are further works
};

/// Accumulates what runs beside one run.
class Company {
 public:
  /// Records that for `span_s` the device ran what `now` says, including the run of `own`.
  void Pass(double span_s, const RunNeed& own, const CompanyNow& now) {
    if (!(span_s > 0)) return;
    span_s_ += span_s;
    for (std::size_t i = 0; i < kLoadKinds; ++i)
      load_s_[i] += std::max(0.0, now.loads_[i] - static_cast<double>(own.loads[i])) * span_s;
    if (now.runs_ <= 1) return;
    run_s_ += static_cast<double>(now.runs_ - 1) * span_s;
    most_ = std::max(most_, now.runs_ - 1);
    const std::uint64_t work = now.OthersWork(own.work);
    several_ = several_ || work == 0 || (only_ != 0 && only_ != work);
    only_ = work;
  }

  [[nodiscard]] RunSeen Seen(double slowdown) const {
    if (!(span_s_ > 0)) return {};
    RunSeen seen{.slowdown = slowdown, .beside = load_s_, .neighbours = run_s_ / span_s_};
    for (double& load : seen.beside) load /= span_s_;
    if (!several_ && seen.neighbours >= kAllTheTime * most_) seen.only = only_;
    return seen;
  }

 private:
  static constexpr double kAllTheTime = 0.9;  // threshold that `weir profile` uses for a pair

  double span_s_ = 0, run_s_ = 0;            // time of the run, and the same times its number of neighbours
  std::array<double, kLoadKinds> load_s_{};  // time times the loads of the neighbours
  std::uint32_t most_ = 0;                   // largest number of neighbours
  std::uint64_t only_ = 0;                   // the last common work of all neighbours
  bool several_ = false;                     // the neighbours had different or unknown works
};

}  // namespace weir::core
