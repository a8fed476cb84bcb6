// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/device_meter.h"

#include <bit>

namespace weir::opencl {
namespace {

std::int64_t Divisor(const platform::CpuSet& cpus, std::size_t workers) {
  std::int64_t count = 0;
  for (const std::uint64_t word : cpus) count += std::popcount(word);
  return count > 0 ? count : static_cast<std::int64_t>(workers > 0 ? workers : 1);
}

std::int64_t CpuNsOf(const std::vector<pid_t>& workers) {
  std::int64_t used = 0;
  for (const pid_t tid : workers) used += platform::ThreadCpuNs(tid).value_or(0);
  return used;
}

}  // namespace

DeviceMeter::DeviceMeter(std::vector<pid_t> workers, const platform::CpuSet& cpus)
    : workers_(std::move(workers)), divisor_(Divisor(cpus, workers_.size())), told_ns_(CpuNsOf(workers_)) {
  for (const pid_t tid : workers_) platform::KeepThreadOn(tid, cpus);
}

std::int64_t DeviceMeter::TakeNs() {
  const std::int64_t used = CpuNsOf(workers_);
  std::int64_t told = told_ns_.load(std::memory_order_relaxed);
  // Another thread may have sampled later and returned more: then nothing is left for this one.
  while (used - told >= divisor_) {
    const std::int64_t whole = (used - told) / divisor_;
    if (told_ns_.compare_exchange_weak(told, told + whole * divisor_, std::memory_order_relaxed)) return whole;
  }
  return 0;
}

}  // namespace weir::opencl
