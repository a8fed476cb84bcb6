// SPDX-License-Identifier: Apache-2.0
// The account of one NVIDIA GPU. NVML tells no counters by process: it tells for each process the percentage of a
// sampling period, of 1/6 s to 1 s, in which its kernels ran. Those are summed up.
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

/// Counters made of percentages. Pure.
class UtilizationSum {
 public:
  /// No sampling period is longer. A process that was idle is not listed, so that its period is not known by its own
  /// last sample.
  static constexpr Duration kPeriodMax = seconds(1);
  static constexpr std::size_t kProcessesMax = 16'384;
  /// A process without a sample for longer is forgotten.
  static constexpr Duration kKeepFor = seconds(60);

  /// Samples that are not later than those before are ignored.
  void Take(std::span<const nvml::ProcessSample> samples);
  /// The latest time of a sample, on NVML's clock; 0: there was none.
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
  /// kUnavailable also: this version of NVML does not tell the use of processes.
  Result<std::vector<DeviceUse>> Read() override;

 private:
  const std::string gpu_, library_;
  std::optional<nvml::NvmlDevice> device_;
  UtilizationSum sum_;
};

}  // namespace weir::account
