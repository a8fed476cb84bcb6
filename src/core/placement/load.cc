// SPDX-License-Identifier: Apache-2.0
#include "core/placement/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

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

std::uint64_t WorkOf(std::string_view blob, std::string_view kernel, std::string_view arguments) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a, 64 bits
  for (const std::string_view part : {blob, kernel, arguments}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    hash = (hash ^ 0xFF) * 0x100000001B3ULL;  // marks the end of a part; the byte never occurs in UTF-8
  }
  return hash == 0 ? 1 : hash;
}

void DeviceState::Take(const RunNeed& need, std::uint32_t as) {
  ++runs;
  used.count += need.memory.count;
  run_ms += need.alone_ms;
  std::size_t at = 0;
  while (at < kKindsMax && by_kind[at].runs > 0 && by_kind[at].kind < as) ++at;
  if (at < kKindsMax && by_kind[at].kind == as) {
    ++by_kind[at].runs;
    return;
  }
  WEIR_CHECK(by_kind.back().runs == 0);
  std::shift_right(by_kind.begin() + static_cast<std::ptrdiff_t>(at), by_kind.end(), 1);
  by_kind[at] = {as, 1};
}

void DeviceState::GiveBack(const RunNeed& need, std::uint32_t as) {
  --runs;
  used.count -= need.memory.count;
  run_ms -= need.alone_ms;
  const auto at = std::ranges::find(by_kind, as, &KindCount::kind);
  WEIR_CHECK(at != by_kind.end());
  if (--at->runs > 0) return;
  std::shift_left(at, by_kind.end(), 1);
  by_kind.back() = {};
}

}  // namespace weir::core
