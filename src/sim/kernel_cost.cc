// SPDX-License-Identifier: Apache-2.0
#include "sim/kernel_cost.h"

#include <algorithm>
#include <cmath>

namespace weir::sim {
namespace {

constexpr std::size_t kShared = 4;  // threads, blocks, traffic, turns
using SharedParts = std::array<double, kShared>;

/// Part of the local memory's traffic that misses the cache.
double MissedPart(double local_bytes, double cache) { return local_bytes > cache ? 1 - cache / local_bytes : 0; }

}  // namespace

KernelCost CostOf(const ClusterKernel& kernel, const ClusterDevices& device) {
  const std::uint32_t threads = std::max(kernel.threads, 1U), blocks = std::max(kernel.blocks, 1U);
  const std::uint32_t processors = std::max(device.processors, 1U);
  // The number of blocks that are resident at once
  const std::uint32_t at_once =
      processors * std::max(1U, std::min(device.blocks / processors, device.threads / processors / threads));
  const double resident = std::min(blocks, at_once);
  const std::uint32_t of_one = (blocks + processors - 1) / processors;  // blocks of the busiest processor
  KernelCost cost;
  cost.seconds = kernel.kernel > Duration{0} ? SecondsOf(kernel.kernel)
                                             : static_cast<double>(of_one) * threads * SecondsOf(kernel.per_thread);
  cost.threads = kernel.processing >= 0 ? kernel.processing : std::min(1.0, resident * threads / device.threads);
  cost.blocks = std::min(1.0, resident / device.blocks);
  cost.traffic = kernel.bytes_per_s / device.bytes_per_s;
  const double local = static_cast<double>(kernel.local.count);
  cost.local_bytes = resident * threads * local;
  cost.turn = device.turn_loss >= 0 ? 1 : 0;
  cost.turn_loss = std::max(device.turn_loss, 0.0);
  if (kernel.loads) {
    const auto part = [&](core::LoadKind kind, double all) {
      return static_cast<double>((*kernel.loads)[static_cast<std::size_t>(kind)]) / all;
    };
    cost.threads = std::min(1.0, part(core::LoadKind::kThreads, device.threads));
    cost.blocks = std::min(1.0, part(core::LoadKind::kBlocks, device.blocks));
    cost.traffic = part(core::LoadKind::kTraffic, device.bytes_per_s * 1e-6);
    cost.local_bytes = part(core::LoadKind::kLocal, 1) * 1024;
    return cost;
  }
  // Every thread writes its local memory once and reads it once.
  if (cost.seconds > 0) cost.local_traffic = 2.0 * blocks * threads * local / cost.seconds / device.bytes_per_s;
  return cost;
}

std::vector<double> SpeedsOf(std::span<const KernelCost> together, double cache) {
  double local_bytes = 0;
  for (const KernelCost& one : together) local_bytes += one.local_bytes;
  const double missed = MissedPart(local_bytes, cache);
  std::vector<SharedParts> wants(together.size());
  std::vector<double> most(together.size()), speeds(together.size());
  std::vector<bool> grows(together.size(), true);
  for (std::size_t k = 0; k < together.size(); ++k) {
    wants[k] = {together[k].threads, together[k].blocks, together[k].traffic + together[k].local_traffic * missed,
                together[k].turn};
    most[k] = *std::ranges::max_element(wants[k]);
    if (most[k] > 0) continue;
    speeds[k] = 1;
    grows[k] = false;
  }
  // A kernel with `grows` has the part `level` of the resource that it uses most. Each round ends when such a kernel
  // reaches full speed or a resource is used up. So there are at most as many rounds as kernels and resources.
  double level = 0;
  for (std::size_t round = 0; round < together.size() + kShared; ++round) {
    SharedParts used{}, slope{};
    double next = 2 * (1 + *std::ranges::max_element(most));
    for (std::size_t k = 0; k < together.size(); ++k) {
      if (grows[k]) next = std::min(next, most[k]);
      for (std::size_t r = 0; r < kShared; ++r) {
        used[r] += wants[k][r] * speeds[k];
        if (grows[k]) slope[r] += wants[k][r] / most[k];
      }
    }
    if (std::ranges::find(grows, true) == grows.end()) break;
    std::size_t full = kShared;
    for (std::size_t r = 0; r < kShared; ++r) {
      if (slope[r] <= 0) continue;
      const double at = level + std::max(0.0, 1 - used[r]) / slope[r];
      if (at >= next) continue;
      next = at;
      full = r;
    }
    for (std::size_t k = 0; k < together.size(); ++k) {
      if (!grows[k]) continue;
      speeds[k] = std::min(1.0, next / most[k]);
      if (full == kShared ? most[k] <= next : wants[k][full] > 0) grows[k] = false;
    }
    level = next;
  }
  if (together.size() > 1)
    for (std::size_t k = 0; k < together.size(); ++k) speeds[k] *= 1 - together[k].turn_loss;
  return speeds;
}

core::DeviceCapacity CapacityFor(const ClusterDevices& device) {
  const auto whole = [](double x) {
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::llround(x)), 1, core::kLoadMax);
  };
  return {.memory = device.memory,
          .runs_max = device.runs_max,
          .loads = {whole(static_cast<double>(device.cache.count) / 1024), whole(device.bytes_per_s * 1e-6),
                    device.threads, device.blocks}};
}

core::RunNeed MeasuredAlone(const ClusterKernel& kernel, const ClusterDevices& device) {
  const KernelCost cost = CostOf(kernel, device);
  const double cache = static_cast<double>(device.cache.count);
  const double speed = SpeedsOf(std::span(&cost, 1), cache).front();
  const double traffic = speed * (cost.traffic + cost.local_traffic * MissedPart(cost.local_bytes, cache));
  const auto whole = [](double x) { return std::min(static_cast<std::uint64_t>(std::llround(x)), core::kLoadMax); };
  const std::uint64_t work = core::WorkOf({}, kernel.name, {});
  if (kernel.loads)
    return {.memory = kernel.memory,
            .loads = *kernel.loads,
            .alone_ms = std::clamp<std::uint64_t>(whole(std::ceil(cost.seconds * 1e3)), 1, core::kAloneMaxMs),
            .work = work};
  return {.memory = kernel.memory,
          .loads = {whole(std::min(cost.local_bytes, cache) / 1024), whole(traffic * device.bytes_per_s * 1e-6),
                    whole(speed * cost.threads * device.threads), whole(speed * cost.blocks * device.blocks)},
          .alone_ms = std::clamp<std::uint64_t>(whole(cost.seconds / speed * 1e3), 1, core::kAloneMaxMs),
          .work = work};
}

}  // namespace weir::sim
