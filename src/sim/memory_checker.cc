// SPDX-License-Identifier: Apache-2.0
// Memory, recomputed from what the model recorded and from the scenario; knows nothing of memory_model.h.
#include <fmt/format.h>

#include <algorithm>
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

  /// After all that happened up to and at `at_ns`.
  static double HeldAt(const TenantRecord& record, std::int64_t at_ns) {
    double held = 0;
    for (const MemoryHeld& one : record.memory)
      if (one.at_ns <= at_ns) held = one.slots;
    return held;
  }
  /// Slots; 0: none.
  [[nodiscard]] double LimitAt(const Tenant& tenant, std::int64_t at_ns) const {
    const auto own = run_.settings.find(tenant.name);
    Bytes limit = (own != run_.settings.end() ? own->second : tenant.settings).memory_max;
    Duration since{-1};
    for (const Change& change : run_.changes) {
      if (change.tenant != tenant.name || change.at.count() > at_ns || change.at < since) continue;
      // A dead daemon hears of it when it is back.
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
    const Device& device = scenario_.devices[index];
    std::vector<Seen> here;
    std::set<std::int64_t> moments;
    for (const TenantRecord& record : record_.tenants)
      for (const Tenant& tenant : scenario_.tenants) {
        if (tenant.name != record.name || tenant.device != index || tenant.memory.count == 0) continue;
        here.push_back({&tenant, &record});
        for (const MemoryHeld& held : record.memory) moments.insert(held.at_ns);
      }
    if (here.empty()) return;
    for (const Change& change : run_.changes)
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

  void CheckCopies(const Device& device, const std::vector<Seen>& here) {
    double all = 0, last_frames = 0;
    for (const Seen& seen : here) {
      const double footprint = SlotsUp(seen.tenant->memory);
      double copied = 0, most = 0;
      for (const std::uint32_t slots : seen.record->copied_slots_by_s) copied += slots;
      for (const MemoryHeld& held : seen.record->memory) most = std::max<double>(most, held.slots);
      const double due = static_cast<double>(seen.record->frame_count) * (footprint - most) + most;
      if (seen.record->frame_count > 0 && copied < due)
        Object("'{}' made {} frames of {:.0f} slots and held {:.0f} at most, but {:.0f} were copied, not {:.0f}",
               seen.tenant->name, seen.record->frame_count, footprint, most, copied, due);
      all += copied;
      last_frames += footprint * seen.tenant->processes;
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
