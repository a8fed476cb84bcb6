// SPDX-License-Identifier: Apache-2.0
#include "core/charge/use_reconciler.h"

#include <algorithm>

namespace weir::core {

Duration UseReconciler::Grown(Instant now, Duration total, Duration bound, Followed& counter) const {
  counter.seen = now;
  Duration grown{};
  if (total >= counter.high) {
    grown = total - counter.high;
    counter.fell.reset();
    counter.high = total;
  } else if (!counter.fell) {
    counter.fell = now;
    counter.fallen = total;
  } else if (now - *counter.fell >= kCatchUp) {
    grown = std::max(total - counter.fallen, Duration{0});
    bound += kCatchUp * kEnginesMax;
    counter.fell.reset();
    counter.high = total;
  }
  return grown <= bound ? grown : Duration{0};
}

Duration UseReconciler::GrownBy(Instant now, const UseCounter& counter, Duration bound, bool gap) {
  if (const auto found = counters_.find(counter.key); found != counters_.end()) {
    // The counter may have been missing from the last readings.
    const Duration since = std::max(now - found->second.seen, Duration{0});
    return Grown(now, counter.total, gap ? Duration{0} : std::max(bound, since * kEnginesMax + kBeliefSlack),
                 found->second);
  }
  if (counters_.size() >= kCountersMax) return {};
  // A new counter began at zero after the last reading. If its value is too high to be believed, only its growth from
  // now on counts.
  counters_[counter.key] = {.high = counter.total, .fallen = {}, .fell = {}, .seen = now};
  return !gap && counter.total <= bound ? std::max(counter.total, Duration{0}) : Duration{0};
}

void UseReconciler::ClaimFrom(Duration available, std::span<VgpuUse> vgpus, std::span<const Duration> counted) {
  const auto claim = [&](std::size_t i) {
    const VgpuUse& vgpu = vgpus[i];
    if (!vgpu.listed) return vgpu.reported;
    return vgpu.partial ? std::max(vgpu.reported - counted[i], Duration{0}) : Duration{0};
  };
  __int128 more = 0, less = 0;
  for (std::size_t i = 0; i < vgpus.size(); ++i) {
    const Duration one = claim(i);
    (one > Duration{0} ? more : less) += one.count();
  }
  const __int128 room = std::max<__int128>(available.count() - less, 0);
  __int128 charged = less;
  for (std::size_t i = 0; i < vgpus.size(); ++i) {
    __int128 one = claim(i).count();
    if (one > 0 && more > room) one = one * room / more;
    if (one > 0) charged += one;
    vgpus[i].correction += Duration{static_cast<std::int64_t>(one)};
  }
  unclaimed_ = Duration{static_cast<std::int64_t>(std::max<__int128>(available.count() - charged, 0))};
}

void UseReconciler::Settle(Instant now, const UseReading& reading, std::span<VgpuUse> vgpus) {
  const bool gap = !current(now);
  const Duration elapsed = last_ ? std::max(now - *last_, Duration{0}) : Duration{0};
  const Duration bound = gap ? Duration{0} : elapsed * kEnginesMax + kBeliefSlack;
  last_ = now;

  std::vector<Duration> counted(vgpus.size());
  Duration all{};
  for (const UseCounter& counter : reading.counters) {
    const Duration grown = GrownBy(now, counter, bound, gap);
    all += grown;
    const auto vgpu = std::ranges::lower_bound(vgpus, counter.vgpu, {}, &VgpuUse::vgpu);
    if (vgpu == vgpus.end() || vgpu->vgpu != counter.vgpu) continue;
    counted[static_cast<std::size_t>(vgpu - vgpus.begin())] += grown;
    vgpu->listed = true;
  }
  std::erase_if(counters_, [&](const auto& one) { return now - one.second.seen > kKeepFor; });

  Duration busy{};
  if (reading.busy && busy_) busy = Grown(now, *reading.busy, bound, *busy_);
  if (reading.busy && !busy_) busy_ = Followed{.high = *reading.busy, .fallen = {}, .fell = {}, .seen = now};
  if (!reading.busy) busy_.reset();
  for (VgpuUse& vgpu : vgpus) vgpu.correction = {};
  if (gap) {
    unclaimed_ = {};
    return;
  }
  // Without a busy time there is room for every report.
  const Duration left = std::max(busy - all, Duration{0});
  ClaimFrom(busy_ ? left + unclaimed_ : Duration::max() / 4, vgpus, counted);
  unclaimed_ = busy_ ? std::min(unclaimed_, left) : Duration{0};
  for (std::size_t i = 0; i < vgpus.size(); ++i)
    vgpus[i].correction += (vgpus[i].listed ? counted[i] : Duration{0}) - vgpus[i].reported;
}

}  // namespace weir::core
