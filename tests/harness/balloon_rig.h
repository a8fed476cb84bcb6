// SPDX-License-Identifier: Apache-2.0
// A balloon and the vGPUs that it sees, for tests in steps of half a second.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/memory/balloon.h"

namespace weir::core {

inline Bytes SlotsWorth(std::uint32_t slots) { return Bytes{slots * kSlotBytes.count}; }

inline PolicyParams CheckedParams(const PolicyParams& given = {}) { return *CheckBalloonParams(given); }

/// A balloon for one CPU, and the observed behaviour of its vGPUs. f is the part of the time spent in copies, plus the
/// part that one thread waits for a CPU.
struct BalloonRig {
  explicit BalloonRig(std::uint32_t slots, const PolicyParams& params = {})
      : balloon(CheckedParams(params), {.slots = slots}) {
    See();
  }
  void Add(std::uint64_t id, std::uint32_t min, std::uint32_t max) {
    EXPECT_TRUE(balloon.Add(VgpuId{id}, SlotsWorth(min), SlotsWorth(max)).has_value());
    views.push_back({.id = VgpuId{id}, .threads = 1});
    now += milliseconds(500);  // a look that records the initial totals
    See();
  }
  MemoryView& ViewOf(std::uint64_t id) { return *std::ranges::find(views, VgpuId{id}, &MemoryView::id); }
  void See() { next = balloon.See(now, views, notes); }
  /// Advances by one look with f = `overhead`, in equal parts from all vGPUs.
  void Look(double overhead) {
    notes.clear();
    now += milliseconds(500);
    const double each = 0.5 / static_cast<double>(std::max<std::size_t>(views.size(), 1));
    for (MemoryView& view : views) {
      const Duration copied = FromSeconds(std::min(overhead, 1.0) * each),
                     stolen = FromSeconds(each * overhead) - copied;
      view.copying += copied;
      view.steal += stolen;
      view.elsewhere += milliseconds(500) - stolen;
    }
    See();
  }
  SlotGrant Ask(std::uint64_t id, std::uint32_t slots) { return *balloon.Ask(now, VgpuId{id}, SlotsWorth(slots)); }
  [[nodiscard]] std::uint32_t Held(std::uint64_t id) const { return balloon.arena().CountOf(VgpuId{id}); }
  [[nodiscard]] std::uint32_t Shrunk() const {
    std::uint32_t slots = 0;
    for (const BalloonNote& note : notes)
      if (note.kind == BalloonNote::Kind::kShrunkIdle || note.kind == BalloonNote::Kind::kShrunkOverhead)
        slots += note.slots;
    return slots;
  }

  Instant now = InstantFromNs(1'000'000'000);
  Instant next{};
  Balloon balloon;
  std::vector<MemoryView> views;
  std::vector<BalloonNote> notes;
};

}  // namespace weir::core
