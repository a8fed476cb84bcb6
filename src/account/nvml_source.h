// SPDX-License-Identifier: Apache-2.0
// The account of one NVIDIA GPU. NVML has no counters for processes. For each process it reports the percentage of a
// sampling period (1/6 s to 1 s) in which the process's kernels ran; these are summed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "account/source.h"
#include "nvml/nvml_device.h"

namespace weir::account {

/// Counters computed from percentages. Pure.
class UtilizationSum {
 public:
  /// Upper bound of a sampling period. An idle process has no samples, so the time since a process's own last sample
  /// may be longer than the period.
  static constexpr Duration kPeriodMax = seconds(1);
  static constexpr std::size_t kProcessesMax = 16'384;
  /// A process without samples for this long is forgotten.
  static constexpr Duration kKeepFor = seconds(60);

  /// Samples that are not newer than the earlier ones are ignored.
  void Take(std::span<const nvml::ProcessSample> samples);
  /// The latest sample's time on NVML's clock; 0: no sample yet.
  [[nodiscard]] std::uint64_t latest_us() const { return latest_us_; }
  [[nodiscard]] std::vector<ClientUse> Clients() const;

 private:
  struct Process {
    Duration used{};
    std::uint64_t sampled_us = 0;
  };
  std::map<std::uint32_t, Process> processes_;  // by pid
  std::uint64_t latest_us_ = 0;
};

class NvmlSource final : public Source {
 public:
  /// `gpu` and `library` as NvmlDevice::Open takes them.
  NvmlSource(std::string gpu, std::string library) : gpu_(std::move(gpu)), library_(std::move(library)) {}
  /// kUnavailable also if this version of NVML does not report the use of processes.
  Result<std::vector<DeviceUse>> Read() override;

 private:
  const std::string gpu_, library_;
  std::optional<nvml::NvmlDevice> device_;
  UtilizationSum sum_;
};

}  // namespace weir::account
