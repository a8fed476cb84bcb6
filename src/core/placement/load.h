// SPDX-License-Identifier: Apache-2.0
// What a run of a kernel needs of its device, and what a device has: the four loads of gCloud (section IV). They are
// whole numbers, so that sums over the runs of a device do not depend on the order of arrival. Page: docs/placement.md
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

/// Indexed by LoadKind: KiB of local memory of all resident threads, MB/s of global memory traffic, resident threads,
/// resident blocks. For a run the mean while it runs alone, for a device its capacity.
using Loads = std::array<std::uint64_t, kLoadKinds>;
inline constexpr std::uint64_t kLoadMax = std::uint64_t{1} << 32;

/// Requirements of one run of a kernel, from the measurement of its solo run.
struct RunNeed {
  Bytes memory{};                  // device memory that it holds from its start to its end
  Loads loads{};                   // each at most kLoadMax
  std::uint64_t alone_ms = 1'000;  // its time alone, at most kAloneMaxMs
  std::uint64_t work = 0;          // WorkOf: runs of equal work are alike; 0: its work is unknown
  friend bool operator==(const RunNeed&, const RunNeed&) = default;
};
inline constexpr std::uint64_t kAloneMaxMs = std::uint64_t{1} << 24;  // 4.6 hours

/// Hash of what a run does, never 0: of a module's blob, a kernel name and the text of the arguments. A run with an
/// input has no such hash, since the contents of the input are unknown.
std::uint64_t WorkOf(std::string_view blob, std::string_view kernel, std::string_view arguments);

struct DeviceCapacity {
  Bytes memory{};
  std::uint32_t runs_max = 16;  // kernels at once: 16 on Fermi (gCloud, section III); at most kRunsAtOnceMax
  Loads loads{1, 1, 1, 1};      // each at least 1, at most kLoadMax
  friend bool operator==(const DeviceCapacity&, const DeviceCapacity&) = default;
};
inline constexpr std::uint32_t kRunsAtOnceMax = 128;

/// kInvalidArgument if a number is out of its range.
Status CheckNeed(const RunNeed& need);
Status CheckDevice(const DeviceCapacity& capacity);

/// Number of runs of one kind on a device. Runs of a kind have equal work, loads and time alone.
struct KindCount {
  std::uint32_t kind = 0;  // index for ClusterState::KindOf; 0: none
  std::uint32_t runs = 0;
  friend auto operator<=>(const KindCount&, const KindCount&) = default;
};
/// Kinds that are distinguished on one device, which bounds the cost of a decision. A run of a further kind counts as
/// the present kind with the most similar time alone.
inline constexpr std::size_t kKindsMax = 8;

/// The runs on a device. Devices of equal state differ for a placement only by their ids.
struct DeviceState {
  std::uint32_t kind = 0;  // index for ClusterState::CapacityOf
  std::uint32_t runs = 0;
  Bytes used{};                                // memory
  std::uint64_t run_ms = 0;                    // the sum of alone_ms
  std::array<KindCount, kKindsMax> by_kind{};  // ascending by kind; empty entries come last
  friend auto operator<=>(const DeviceState&, const DeviceState&) = default;

  /// Adds a run that counts as kind `as`, which is present or for which an entry is free.
  void Take(const RunNeed& need, std::uint32_t as);
  /// Removes a run that Take has added.
  void GiveBack(const RunNeed& need, std::uint32_t as);
  /// Whether memory and the number of runs leave room for another run.
  [[nodiscard]] bool Holds(const RunNeed& need, const DeviceCapacity& capacity) const {
    return runs < capacity.runs_max && used <= capacity.memory &&
           need.memory.count <= capacity.memory.count - used.count;
  }
};

/// Runs of one kind beside a run.
struct Neighbours {
  const RunNeed* need = nullptr;  // of each of these runs
  std::uint32_t runs = 0;
};

}  // namespace weir::core
