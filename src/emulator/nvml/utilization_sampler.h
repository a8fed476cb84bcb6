// SPDX-License-Identifier: Apache-2.0
// The use of processes as NVML reports it: percentages of a sampling period, rounded to whole numbers. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"
#include "emulator/account_reader.h"

namespace weir::emulator {

class UtilizationSampler {
 public:
  /// The shortest of the sampling periods that NVIDIA documents (1/6 s to 1 s).
  static constexpr Duration kPeriod = microseconds(166'667);

  struct Sample {
    std::int64_t pid = 0;
    std::uint32_t percent = 0;
  };

  /// Whether a period is over, so that the account must be read.
  [[nodiscard]] bool Due(Instant now) const { return sampled_ == Instant{} || now - sampled_ >= kPeriod; }

  void Take(Instant now, const DeviceUse& use) {
    std::map<std::int64_t, Duration> by_pid;
    for (const ClientUse& client : use.clients) by_pid[client.pid] += client.compute;
    samples_.clear();
    for (const auto& [pid, used] : by_pid) {
      if (sampled_ == Instant{}) continue;
      const auto before = used_.find(pid);  // a process without an entry began in this period
      const std::uint32_t percent =
          PercentOf(used - (before == used_.end() ? Duration{} : before->second), now - sampled_);
      if (percent > 0) samples_.push_back({pid, percent});
    }
    percent_ = sampled_ == Instant{} ? 0 : PercentOf(use.busy - busy_, now - sampled_);
    used_ = std::move(by_pid);
    busy_ = use.busy;
    sampled_ = now;
  }

  /// The processes that used the device for at least half a percent of the last period.
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  [[nodiscard]] std::uint32_t percent() const { return percent_; }

 private:
  static std::uint32_t PercentOf(Duration part, Duration period) {
    const double percent = 100.0 * static_cast<double>(part.count()) / static_cast<double>(period.count());
    return percent <= 0 ? 0 : static_cast<std::uint32_t>(std::lround(std::min(percent, 100.0)));
  }

  std::map<std::int64_t, Duration> used_;  // by pid
  Duration busy_{};
  Instant sampled_{};
  std::vector<Sample> samples_;
  std::uint32_t percent_ = 0;
};

}  // namespace weir::emulator
