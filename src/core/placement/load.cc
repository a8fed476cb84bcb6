// SPDX-License-Identifier: Apache-2.0
#include "core/placement/load.h"

#include <fmt/format.h>

namespace weir::core {
namespace {

constexpr std::array<std::string_view, kLoadKinds> kLoadNames{"local memory", "global memory traffic", "threads",
                                                              "blocks"};

}  // namespace

std::string_view NameOf(LoadKind kind) { return kLoadNames[static_cast<std::size_t>(kind)]; }

Status CheckNeed(const RunNeed& need) {
  for (std::size_t i = 0; i < kLoadKinds; ++i)
    if (need.loads[i] > kLoadMax)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("a run's {} of {} is over {}", kLoadNames[i], need.loads[i], kLoadMax));
  if (need.alone_ms == 0 || need.alone_ms > kAloneMaxMs)
    return Fail(Errc::kInvalidArgument,
                fmt::format("a run's time alone of {} ms is not from 1 to {} ms", need.alone_ms, kAloneMaxMs));
  return Ok();
}

Status CheckDevice(const DeviceCapacity& capacity) {
  for (std::size_t i = 0; i < kLoadKinds; ++i)
    if (capacity.loads[i] == 0 || capacity.loads[i] > kLoadMax)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("a device's {} of {} is not from 1 to {}", kLoadNames[i], capacity.loads[i], kLoadMax));
  if (capacity.runs_max == 0 || capacity.runs_max > kRunsAtOnceMax)
    return Fail(Errc::kInvalidArgument,
                fmt::format("a device runs from 1 to {} kernels at once, not {}", kRunsAtOnceMax, capacity.runs_max));
  return Ok();
}

void DeviceState::Take(const RunNeed& need) {
  ++runs;
  used.count += need.memory.count;
  run_ms += need.alone_ms;
  for (std::size_t i = 0; i < kLoadKinds; ++i) {
    loads[i] += need.loads[i];
    load_ms[i] += need.loads[i] * need.alone_ms;
  }
}

void DeviceState::GiveBack(const RunNeed& need) {
  --runs;
  used.count -= need.memory.count;
  run_ms -= need.alone_ms;
  for (std::size_t i = 0; i < kLoadKinds; ++i) {
    loads[i] -= need.loads[i];
    load_ms[i] -= need.loads[i] * need.alone_ms;
  }
}

}  // namespace weir::core
