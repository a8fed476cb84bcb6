// SPDX-License-Identifier: Apache-2.0
// Checks memory from the scenario and the run's record alone, independently of memory_model.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "sim/checkers.h"

namespace weir::sim {
namespace {

constexpr double kSlot = static_cast<double>(kSlotBytes.count);

double SlotsUp(Bytes bytes) { return static_cast<double>((bytes.count + kSlotBytes.count - 1) / kSlotBytes.count); }

class MemoryChecker {
 public:
  MemoryChecker(const Scenario& scenario, const Run& run, const RunRecord& record)
      : scenario_(scenario), run_(run), record_(record) {}

  std::vector<std::string> All() {
    for (std::uint32_t device = 0; device < scenario_.devices.size(); ++device) CheckDevice(device);
    return std::move(objections_);
  }

 private:
  struct Seen {
    const Tenant* tenant;
    const TenantRecord* record;
  };

  template <typename... T>
  void Object(fmt::format_string<T...> text, T&&... values) {
    objections_.push_back("memory: " + fmt::format(text, std::forward<T>(values)...));
  }

  /// Slots on the device, after everything that happened up to and at `at_ns`.
  static double HeldAt(const TenantRecord& record, std::int64_t at_ns) {
    double held = 0;
    for (const MemoryHeld& one : record.memory)
      if (one.at_ns <= at_ns) held = one.slots;
    return held;
  }
  /// The limit in slots; 0: none, or not known for sure.
  [[nodiscard]] double LimitAt(const Tenant& tenant, std::int64_t at_ns) const {
    const auto own = run_.settings.find(tenant.name);
    Bytes limit = (own != run_.settings.end() ? own->second : tenant.settings).memory_max;
    Duration since{-1};
    for (const ScenarioChange& change : run_.changes) {
      if (change.tenant != tenant.name || change.at.count() > at_ns || change.at < since) continue;
      // A dead daemon applies the change when it is back.
      for (const Fault& fault : scenario_.faults)
        if (fault.kind == FaultKind::kDaemonCrash && fault.device == tenant.device && fault.at <= change.at &&
            at_ns <= fault.until.count())
          return 0;
      limit = change.settings.memory_max;
      since = change.at;
    }
    return SlotsUp(limit);
  }

  void CheckDevice(std::uint32_t index) {
    if (run_.memory == MemoryMode::kSwitched) return;  // the record has no slots of switched memory
    const Device& device = scenario_.devices[index];
    std::vector<Seen> here;
    std::set<std::int64_t> moments;
    for (const TenantRecord& record : record_.tenants)
      for (const Tenant& tenant : scenario_.tenants) {
        if (tenant.name != record.name || tenant.device != index || MostOf(tenant) == 0) continue;
        here.push_back({&tenant, &record});
        for (const MemoryHeld& held : record.memory) moments.insert(held.at_ns);
      }
    if (here.empty()) return;
    if (run_.memory == MemoryMode::kElastic) return CheckElastic(device, index, here);
    for (const ScenarioChange& change : run_.changes)
      if (change.at <= scenario_.span) moments.insert(change.at.count());
    for (const std::int64_t at_ns : moments) {
      double all = 0;
      for (const Seen& seen : here) {
        const double held = HeldAt(*seen.record, at_ns);
        const double limit = LimitAt(*seen.tenant, at_ns);
        all += held;
        if (limit > 0 && held > limit)
          Object("{:.3f} s: '{}' holds {:.0f} slots of its {:.0f}", static_cast<double>(at_ns) * 1e-9,
                 seen.tenant->name, held, limit);
      }
      const double size = static_cast<double>(device.memory.count / kSlotBytes.count);
      if (device.memory.count > 0 && all > size)
        Object("{:.3f} s: {:.0f} slots are held of the {:.0f} of device {}", static_cast<double>(at_ns) * 1e-9, all,
               size, index);
    }
    CheckCopies(device, here);
  }

  static double SlotsAt(const std::vector<MemoryHeld>& series, std::int64_t at_ns) {
    const auto after = std::ranges::upper_bound(series, at_ns, {}, &MemoryHeld::at_ns);
    return after == series.begin() ? 0 : std::prev(after)->slots;
  }
  /// The largest value just before a moment and at it; several entries may have the same time.
  static double MostAt(const std::vector<MemoryHeld>& series, std::int64_t at_ns) {
    double most = SlotsAt(series, at_ns - 1);
    for (auto one = std::ranges::lower_bound(series, at_ns, {}, &MemoryHeld::at_ns);
         one != series.end() && one->at_ns == at_ns; ++one)
      most = std::max<double>(most, one->slots);
    return most;
  }
  /// Slots of the tenant's buffers in the scene with the most, or with the least.
  static double MostOf(const Tenant& tenant) {
    Bytes most = tenant.memory;
    for (const Scene& scene : tenant.scenes) most = std::max(most, scene.memory.value_or(Bytes{}));
    return SlotsUp(most);
  }
  static double LeastOf(const Tenant& tenant) {
    Bytes least = tenant.scenes.empty() ? tenant.memory : Bytes{std::numeric_limits<std::uint64_t>::max() / 2};
    for (const Scene& scene : tenant.scenes) least = std::min(least, scene.memory.value_or(tenant.memory));
    return SlotsUp(least);
  }

  /// The time within the interval in which the daemon was dead or the device stalled.
  [[nodiscard]] Duration BrokenWithin(std::uint32_t index, Duration from, Duration to) const {
    Duration broken{};
    for (const Fault& fault : scenario_.faults)
      if (fault.device == index && (fault.kind == FaultKind::kDaemonCrash || fault.kind == FaultKind::kDeviceStall))
        broken += std::max(std::min(to, fault.until) - std::max(from, fault.at), Duration{});
    return broken;
  }

  void CheckElastic(const Device& device, std::uint32_t index, const std::vector<Seen>& here) {
    std::set<std::int64_t> moments;
    for (const Seen& seen : here)
      for (const auto* series : {&seen.record->memory, &seen.record->here, &seen.record->held})
        for (const MemoryHeld& one : *series) moments.insert(one.at_ns);
    const double size = static_cast<double>(device.memory.count / kSlotBytes.count);
    for (const std::int64_t at_ns : moments) {
      double all = 0, its_own = 0;
      for (const Seen& seen : here) {
        const double resident = SlotsAt(seen.record->memory, at_ns), own = SlotsAt(seen.record->here, at_ns);
        all += resident;
        its_own += std::max(resident, own);
        if (const double held = SlotsAt(seen.record->held, at_ns); own > held)
          Object("{:.3f} s: of the {:.0f} slots that '{}' holds {:.0f} are its own", static_cast<double>(at_ns) * 1e-9,
                 held, seen.tenant->name, own);
      }
      if (all > size)
        Object("{:.3f} s: {:.0f} slots are there of the {:.0f} of device {}", static_cast<double>(at_ns) * 1e-9, all,
               size, index);
      else if (its_own > size)
        Object("{:.3f} s: {:.0f} slots are somebody's own, or there, of the {:.0f} of device {}",
               static_cast<double>(at_ns) * 1e-9, its_own, size, index);
    }
    for (const Seen& seen : here) CheckOrders(index, seen);
    CheckCopies(device, here);
  }

  /// Only assigned slots are restored, slots that are no longer assigned are evicted in time, and frames that wait for
  /// memory are served in time.
  void CheckOrders(std::uint32_t index, const Seen& seen) {
    const TenantRecord& record = *seen.record;
    const Duration patience = MemoryPatienceOf(scenario_, run_, *seen.tenant);
    double before = 0;
    for (const MemoryHeld& one : record.memory) {
      if (const double own = MostAt(record.here, one.at_ns); one.slots > before && one.slots > own)
        Object("{:.3f} s: '{}' restores {} slots; {:.0f} are its own", static_cast<double>(one.at_ns) * 1e-9,
               seen.tenant->name, one.slots, own);
      before = one.slots;
    }
    for (std::size_t i = 0; i < record.here.size(); ++i) {
      const MemoryHeld& order = record.here[i];
      const std::int64_t until = i + 1 < record.here.size() ? record.here[i + 1].at_ns : record_.span_ns;
      const Duration over = patience + BrokenWithin(index, Duration{order.at_ns}, Duration{until});
      const std::int64_t late = order.at_ns + over.count();
      if (late < until && SlotsAt(record.memory, late) > order.slots)
        Object("{:.3f} s: '{}' has {:.0f} slots there, and was told {:.1f} s ago to keep {}",
               static_cast<double>(late) * 1e-9, seen.tenant->name, SlotsAt(record.memory, late), SecondsOf(over),
               order.slots);
    }
    for (const MemoryWait& wait : record.memory_waits)
      if (Duration{wait.to_ns - wait.from_ns} >
          patience + BrokenWithin(index, Duration{wait.from_ns}, Duration{wait.to_ns}))
        Object("{:.3f} s: '{}' has waited for its memory for {:.1f} s", static_cast<double>(wait.to_ns) * 1e-9,
               seen.tenant->name, static_cast<double>(wait.to_ns - wait.from_ns) * 1e-9);
  }

  /// Enough is copied for the frames that were made, and no more than the link can carry in the span.
  void CheckCopies(const Device& device, const std::vector<Seen>& here) {
    double all = 0, last_frames = 0;
    for (const Seen& seen : here) {
      const double footprint = LeastOf(*seen.tenant);
      double copied = 0, most = 0;
      for (const std::uint32_t slots : seen.record->copied_slots_by_s) copied += slots;
      for (const MemoryHeld& held : seen.record->memory) most = std::max<double>(most, held.slots);
      most = std::min(most, footprint);
      const double due = static_cast<double>(seen.record->frame_count) * (footprint - most) + most;
      if (seen.record->frame_count > 0 && copied < due)
        Object("'{}' made {} frames of {:.0f} slots and held {:.0f} at most, but {:.0f} were copied, not {:.0f}",
               seen.tenant->name, seen.record->frame_count, footprint, most, copied, due);
      all += copied + seen.record->copied_out_slots;
      last_frames += 2 * MostOf(*seen.tenant) * seen.tenant->processes;
    }
    const double takes = std::max(0.0, all - last_frames) * kSlot / device.link_bytes_per_s;
    if (takes > SecondsOf(scenario_.span))
      Object("{:.0f} slots were copied in {:g} s; the link takes {:.3f} s for them", all, SecondsOf(scenario_.span),
             takes);
  }

  const Scenario& scenario_;
  const Run& run_;
  const RunRecord& record_;
  std::vector<std::string> objections_;
};

}  // namespace

std::vector<std::string> CheckMemory(const Scenario& scenario, const Run& run, const RunRecord& record) {
  return MemoryChecker(scenario, run, record).All();
}

}  // namespace weir::sim
