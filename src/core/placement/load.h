// SPDX-License-Identifier: Apache-2.0
// What a run of a kernel asks of its device, and what a device has: the four loads that gCloud reckons with (section
// IV). Whole numbers, so that sums over what runs on a device do not depend on the order in which it came. Page:
// docs/placement.md
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"

namespace weir::core {

enum class LoadKind : std::uint8_t { kLocal, kTraffic, kThreads, kBlocks };
inline constexpr std::size_t kLoadKinds = 4;
using RunId = Id<struct RunTag>;  // one execution of a module's kernel in the cluster

/// "local memory", "global memory traffic", "threads", "blocks".
std::string_view NameOf(LoadKind kind);

/// By LoadKind: KiB of local memory of all resident threads, MB/s of global memory traffic, resident threads, resident
/// blocks; of a run the mean while it runs alone, of a device what it has.
using Loads = std::array<std::uint64_t, kLoadKinds>;
inline constexpr std::uint64_t kLoadMax = std::uint64_t{1} << 32;

/// One run of a kernel, as its solo run was measured.
struct RunNeed {
  Bytes memory{};                  // of the device, from its start until its end
  Loads loads{};                   // each at most kLoadMax
  std::uint64_t alone_ms = 1'000;  // that it takes alone, at most kAloneMaxMs
  std::uint64_t work = 0;          // WorkOf: runs of equal work are alike; 0: nothing is known of what it does
  friend bool operator==(const RunNeed&, const RunNeed&) = default;
};
inline constexpr std::uint64_t kAloneMaxMs = std::uint64_t{1} << 24;  // 4.6 hours

/// What a run does, as a number that isn't 0: of one module's blob, one of its kernels and one text of arguments. What
/// has an input has none: nobody knows what is in it.
std::uint64_t WorkOf(std::string_view blob, std::string_view kernel, std::string_view arguments);

struct DeviceCapacity {
  Bytes memory{};
  std::uint32_t runs_max = 16;  // kernels at once: 16 on Fermi (gCloud, section III); at most kRunsAtOnceMax
  Loads loads{1, 1, 1, 1};      // each at least 1, at most kLoadMax
  friend bool operator==(const DeviceCapacity&, const DeviceCapacity&) = default;
};
inline constexpr std::uint32_t kRunsAtOnceMax = 128;

/// kInvalidArgument where a number is out of its range.
Status CheckNeed(const RunNeed& need);
Status CheckDevice(const DeviceCapacity& capacity);

/// Runs of one kind on a device. A kind: equal work, loads and time alone.
struct KindCount {
  std::uint32_t kind = 0;  // of ClusterState::KindOf; 0: none
  std::uint32_t runs = 0;
  friend auto operator<=>(const KindCount&, const KindCount&) = default;
};
/// Kinds that are told apart on one device, so that a decision about it takes no longer than for these. A run of one
/// more counts as the kind there that takes alone most nearly as long.
inline constexpr std::size_t kKindsTold = 8;

/// What runs on a device. Devices of equal state are alike to every placement but for their ids.
struct DeviceState {
  std::uint32_t kind = 0;  // of ClusterState::CapacityOf
  std::uint32_t runs = 0;
  Bytes used{};                              // memory
  std::uint64_t run_ms = 0;                  // the sum of alone_ms
  std::array<KindCount, kKindsTold> told{};  // by kind, ascending; those that are none come last
  friend auto operator<=>(const DeviceState&, const DeviceState&) = default;

  /// A run that counts as `as`, which is told already, or there is a place for it.
  void Take(const RunNeed& need, std::uint32_t as);
  void GiveBack(const RunNeed& need, std::uint32_t as);
  [[nodiscard]] bool Holds(const RunNeed& need, const DeviceCapacity& capacity) const {
    return runs < capacity.runs_max && used <= capacity.memory &&
           need.memory.count <= capacity.memory.count - used.count;
  }
};

/// Runs of one kind that are beside a run.
struct Neighbours {
  const RunNeed* need = nullptr;  // of each
  std::uint32_t runs = 0;
};

}  // namespace weir::core
