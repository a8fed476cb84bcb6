// SPDX-License-Identifier: Apache-2.0
// Corrects what processes report about their own use of a device, by the account of its driver. Pure.
// Page: docs/accounting.md
//
//   reports of a vGPU since the last reading ──┐
//                                              ├─▶ UseReconciler ──▶ correction of its charge
//   reading: counters of processes, busy time ─┘
//
// Laws (use_reconciler_test.cc):
// 1. The charges of all vGPUs exceed the busy time of the device by at most the busy time of one interval.
// 2. A vGPU whose processes have counters is charged exactly what the counters say.
// 3. Where only the busy time of the device is known, reports that exceed it are scaled down in proportion.
// 4. Without any account, charges are as reported.
// 5. A process that ends, or a counter that goes back, changes the sum of all charges neither up nor down.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace weir::core {

/// How long a device worked for one client (one open context) of a process, as its driver counts.
struct UseCounter {
  VgpuId vgpu;            // none: the process belongs to no vGPU
  ProcessId process;      // none: the same
  std::uint64_t key = 0;  // unique to this counter
  Duration total{};
};

/// The driver's account at one time. `counters` lists every process that uses the device, and each key once. A process
/// that is not listed has not used the device.
struct UseReading {
  std::optional<Duration> busy;  // of the device, since an arbitrary start
  std::span<const UseCounter> counters;
};

/// One vGPU of the device: input and output of Settle.
struct VgpuUse {
  VgpuId vgpu;
  Duration reported{};    // in: GPU time reported since the last reading
  bool listed = false;    // in and out: a process of it has had a counter
  bool partial = false;   // in: a process of it has ended since the last reading and has no counter in this one
  Duration correction{};  // out: is added to the charge
};

class UseReconciler {
 public:
  /// After a longer gap between two readings, a reading only sets the counters: the reports in between are not
  /// corrected.
  static constexpr Duration kGapMax = seconds(5);
  /// A counter that is missing for longer is forgotten.
  static constexpr Duration kKeepFor = seconds(10);
  /// A counter that went back is followed from its lower value after this time. The kernel's rule for DRM fdinfo is
  /// that a value may fall, and then catches up.
  static constexpr Duration kCatchUp = seconds(2);
  /// No counter grows faster than this many seconds in a second: a client can keep several engines busy.
  static constexpr std::int64_t kEnginesMax = 8;
  /// Added to that bound, since the moments of two readings are not exact.
  static constexpr Duration kBeliefSlack = milliseconds(200);
  static constexpr std::size_t kCountersMax = 16'384;

  /// Takes a reading at `now`, never earlier than the last one, and fills in the corrections. `vgpus`: all of the
  /// device, by id.
  void Settle(Instant now, const UseReading& reading, std::span<VgpuUse> vgpus);
  /// Whether a reading came within kGapMax.
  [[nodiscard]] bool current(Instant now) const { return last_ && now - *last_ <= kGapMax; }

 private:
  struct Followed {
    Duration high{};              // the value up to which it was charged
    Duration fallen{};            // its first value below `high`
    std::optional<Instant> fell;  // when it had that value; none: it has not gone back
    Instant seen{};               // time of its last reading
  };
  /// Growth of a counter since its last reading. Zero if it exceeds `bound`, which is not believed.
  Duration Grown(Instant now, Duration total, Duration bound, Followed& counter) const;
  Duration GrownBy(Instant now, const UseCounter& counter, Duration bound, bool gap);
  /// Charges reports that no counter covers, together at most `available`. `counted`: growth of each vGPU's counters.
  void ClaimFrom(Duration available, std::span<VgpuUse> vgpus, std::span<const Duration> counted);

  std::map<std::uint64_t, Followed> counters_;
  std::optional<Followed> busy_;
  Duration unclaimed_{};  // busy time of the last interval that no charge covers
  std::optional<Instant> last_;
};

}  // namespace weir::core
