// SPDX-License-Identifier: Apache-2.0
#include "account/nvml_source.h"

#include <algorithm>

namespace weir::account {

void UtilizationSum::Take(std::span<const nvml::ProcessSample> samples) {
  constexpr auto kPeriodMaxUs = static_cast<std::uint64_t>(kPeriodMax / microseconds(1));
  constexpr auto kKeepForUs = static_cast<std::uint64_t>(kKeepFor / microseconds(1));
  std::uint64_t latest = latest_us_;
  for (const nvml::ProcessSample& sample : samples) {
    if (sample.time_us <= latest_us_) continue;
    latest = std::max(latest, sample.time_us);
    if (!processes_.contains(sample.pid) && processes_.size() == kProcessesMax) continue;
    // The driver samples all processes at the same time, so the period began at the latest earlier sample of any
    // process.
    const std::uint64_t period_us = latest_us_ == 0 ? 0 : std::min(sample.time_us - latest_us_, kPeriodMaxUs);
    Process& process = processes_[sample.pid];
    process.used += microseconds(period_us) * std::min(sample.percent, 100U) / 100;
    process.sampled_us = sample.time_us;
  }
  latest_us_ = latest;
  std::erase_if(processes_, [&](const auto& entry) { return entry.second.sampled_us + kKeepForUs < latest_us_; });
}

std::vector<ClientUse> UtilizationSum::Clients() const {
  std::vector<ClientUse> clients;
  clients.reserve(processes_.size());
  for (const auto& [pid, process] : processes_) clients.push_back({.key = pid, .pid = pid, .used = process.used});
  return clients;
}

Result<std::vector<DeviceUse>> NvmlSource::Read() {
  if (!device_) {
    WEIR_TRY(device_, nvml::NvmlDevice::Open(library_, gpu_));
  }
  auto samples = device_->ProcessSamples(sum_.latest_us());
  if (!samples) {
    device_.reset();
    return samples.error();
  }
  sum_.Take(*samples);
  return std::vector{DeviceUse{.busy = {}, .clients = sum_.Clients()}};
}

}  // namespace weir::account
