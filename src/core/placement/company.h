// SPDX-License-Identifier: Apache-2.0
// What a run had beside it while it ran: loads and numbers on the mean, for the line; and, where it was nothing but
// runs of one work, always as many, which, for the pair. Page: docs/placement.md
#pragma once

#include <algorithm>
#include <array>

#include "core/placement/load.h"

namespace weir::core {

/// What was seen of a run that is done.
struct RunSeen {
  double slowdown = 0;                      // its time over its time alone; 0: not known
  std::array<double, kLoadKinds> beside{};  // loads of the others, means over its time
  double neighbours = 0;                    // likewise, how many they were
  std::uint64_t only = 0;                   // the work of all of them, and they were as many all the time; 0: not so
};

/// All that runs on a device at one time.
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
  /// Of all but one of `own`; 0: they are of several, or not known.
  [[nodiscard]] std::uint64_t OthersWork(std::uint64_t own) const {
    if (more_) return 0;
    if (works_ == 1) return work_[0];
    const std::size_t mine = work_[0] == own ? 0 : 1;
    return count_[mine] == 1 ? work_[1 - mine] : 0;
  }

  std::uint32_t runs_ = 0;
  std::array<double, kLoadKinds> loads_{};
  std::array<std::uint64_t, 2> work_{};  // the first two
  std::array<std::uint32_t, 2> count_{};
  std::size_t works_ = 0;
  bool more_ = false;
};

/// Of one run.
class Company {
 public:
  /// For `span_s` the device had what `now` says, the run of `own` among it.
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
  static constexpr double kAllTheTime = 0.9;  // as `weir profile` takes a pair

  double span_s_ = 0, run_s_ = 0;
  std::array<double, kLoadKinds> load_s_{};
  std::uint32_t most_ = 0;
  std::uint64_t only_ = 0;
  bool several_ = false;
};

}  // namespace weir::core
