// SPDX-License-Identifier: Apache-2.0
#include "kernel/cuttable.h"

#include <algorithm>
#include <vector>

namespace weir::kernel {
namespace {

/// Bounds the time that access forms from an untrusted process can take.
constexpr std::size_t kCutPairsMax = 1024;

/// One access in a launch. It starts at byte base + sum of factor * unit of its memory object, for values of the units
/// in their ranges; or, with `anywhere`, at an unknown byte of its argument.
struct Touched {
  const MemoryAccess* access = nullptr;
  bool anywhere = false;
  std::int64_t base = 0;
  std::int64_t bytes = 0;
  Interval hull{};  // of its bytes in the memory object; excludes the end
  std::array<Interval, 3> groups{};
  std::array<FormUnit, Form::kTermsMax> units{};
  std::size_t count = 0;
  bool operator==(const Touched& other) const {
    if (access->argument != other.access->argument || access->write != other.access->write ||
        anywhere != other.anywhere || base != other.base || bytes != other.bytes || hull != other.hull ||
        groups != other.groups || count != other.count)
      return false;
    for (std::size_t i = 0; i < count; ++i)
      if (units[i].symbol != other.units[i].symbol || units[i].is_id != other.units[i].is_id ||
          units[i].factor != other.units[i].factor || units[i].range != other.units[i].range)
        return false;
    return true;
  }
};

/// One access of a pair that is compared along the cut dimension, after outer steps were removed. Intervals are of
/// bytes of its start.
struct Remains {
  std::array<FormUnit, Form::kTermsMax> units{};
  std::size_t count = 0;
  std::int64_t cut_factor = 0;  // bytes from one group to the next
  Interval groups{};            // groups that reach the access
  Interval inner{};             // of its start in group 0 of the cut dimension
  Interval rest{}, ids{0, 0};   // parts of its start: `ids` comes from the id of the cut dimension
};

std::uint16_t CutSymbol(unsigned d) { return static_cast<std::uint16_t>(kGroupSymbol + d); }

/// Splits the id of dimension d into the terms of the group and of the local id.
Remains RemainsOf(const Touched& touched, unsigned d, const KernelLaunch& launch) {
  Remains remains;
  const auto size = static_cast<std::int64_t>(launch.local[d]);
  remains.groups = touched.groups[d];
  remains.rest = {touched.base, touched.base};
  Interval local{0, 0};  // bytes that the local id adds, if the id is split
  for (std::size_t i = 0; i < touched.count; ++i) {
    const FormUnit& unit = touched.units[i];
    if (unit.symbol != CutSymbol(d)) {
      remains.units[remains.count++] = unit;
      remains.rest = remains.rest + unit.range * unit.factor;
      continue;
    }
    remains.ids = unit.range * unit.factor;
    remains.cut_factor = unit.is_id ? FarMul(unit.factor, size) : unit.factor;
    if (unit.is_id) local = Interval{0, size - 1} * unit.factor;
  }
  remains.inner = remains.rest + local;
  return remains;
}

Interval AllOf(const Remains& remains, std::int64_t bytes) {
  Interval all = remains.rest + remains.ids;
  all.high = FarAdd(all.high, bytes);
  return all;
}

bool Apart(Interval a, Interval b) { return a.high <= b.low || b.high <= a.low; }

/// True if no byte of `a` in one group is a byte of `b` in another group along the cut.
bool GroupsApart(Remains a, std::int64_t bytes_a, Remains b, std::int64_t bytes_b) {
  // Removes at most one step: the extents of a footprint describe rows, but not rows of rows.
  for (int level = 0; level < 2; ++level) {
    const Interval all_a = AllOf(a, bytes_a), all_b = AllOf(b, bytes_b);
    if (!all_a.bounded() || !all_b.bounded()) return false;
    if (Apart(all_a, all_b)) return true;
    if (a.groups.single() && a.groups == b.groups) return true;
    if (a.cut_factor == b.cut_factor && a.cut_factor != 0) {
      const std::int64_t step = a.cut_factor < 0 ? -a.cut_factor : a.cut_factor;
      // In either order, the bytes of one access in a group end before those of the other access in the next group
      // begin.
      if (FarAdd(FarAdd(a.inner.high, bytes_a), -b.inner.low) <= step &&
          FarAdd(FarAdd(b.inner.high, bytes_b), -a.inner.low) <= step)
        return true;
    }
    // Removes the widest step from both: if the rest of both accesses fits between two such steps, only bytes of equal
    // steps can meet.
    std::size_t widest = a.count;
    for (std::size_t i = 0; i < a.count; ++i) {
      const bool wider = widest == a.count || a.units[i].factor > a.units[widest].factor;
      if (a.units[i].factor > 0 && wider) widest = i;
    }
    if (widest == a.count) return false;
    const FormUnit outer = a.units[widest];
    std::size_t other = 0;
    while (other < b.count && b.units[other].factor != outer.factor) ++other;
    if (other == b.count) return false;
    const auto take = [](Remains& from, std::size_t index) {
      const FormUnit unit = from.units[index];
      from.units[index] = from.units[--from.count];
      // Interval arithmetic has no inverse, so both ends are moved.
      const Interval gone = unit.range * unit.factor;
      from.inner = {from.inner.low - gone.low, from.inner.high - gone.high};
      from.rest = {from.rest.low - gone.low, from.rest.high - gone.high};
    };
    take(a, widest);
    take(b, other);
    const Interval window = Hull(AllOf(a, bytes_a), AllOf(b, bytes_b));
    if (FarAdd(window.high, -window.low) > outer.factor) return false;
  }
  return false;
}

class CutJudge {
 public:
  CutJudge(const KernelAccess& access, const KernelLaunch& launch) : access_(access), launch_(launch) {}

  std::array<CutAnswer, 3> Judge() {
    if (const auto status = CheckLaunch(access_, launch_); !status) return Never(status.error().message, 0);
    if (access_.verdict == AccessVerdict::kRefuse) return Never(access_.reason, access_.line);
    if (!Collect()) return answers_;
    for (unsigned d = 0; d < 3; ++d) {
      answers_[d] = {.yes = true};
      if (d >= launch_.dimensions || launch_.Groups(d) < 2)
        answers_[d] = {.why_not = "it has one work-group along dimension " + std::to_string(d)};
      else if (launch_.global[d] % launch_.local[d] != 0)
        answers_[d] = {.why_not = "its work-groups are not of one size along dimension " + std::to_string(d)};
      else
        ComparePairs(d);
    }
    return answers_;
  }

 private:
  std::array<CutAnswer, 3> Never(const std::string& why_not, std::uint32_t line) {
    answers_.fill({.yes = false, .why_not = why_not, .line = line});
    return answers_;
  }

  [[nodiscard]] std::string NameOfArgument(const MemoryAccess& one) const {
    const std::string& name = access_.arguments[one.argument].name;
    return name.empty() ? "argument " + std::to_string(one.argument) : "'" + name + "'";
  }

  bool Collect() {
    LaunchForms forms(access_, launch_);
    std::size_t entered = kAccessContextsMax;
    bool reached = false;
    touched_.reserve(access_.accesses.size());
    for (const MemoryAccess& one : access_.accesses) {
      if (one.context != entered) reached = forms.Enter(one.context);
      entered = one.context;
      if (!reached) continue;
      const LaunchArgument& argument = launch_.arguments[one.argument];
      const Form offset = forms.FormOf(one.offset);
      const Interval starts = forms.Bounds(offset), bytes = forms.Bounds(forms.FormOf(one.bytes));
      const auto size = static_cast<std::int64_t>(argument.bytes), begin = static_cast<std::int64_t>(argument.offset);
      Touched touched{.access = &one};
      touched.anywhere = !starts.bounded() || !bytes.bounded() || bytes.low < 0;
      if (touched.anywhere && one.write)
        return Never("where " + NameOfArgument(one) + " is written isn't known with these arguments", one.line), false;
      if (!touched.anywhere) {
        if (bytes.high == 0) continue;
        const Interval hull{starts.low, FarAdd(starts.high, bytes.high)};
        if (!hull.Within(0, size)) {
          if (one.write || (access_.verdict == AccessVerdict::kExact && forms.exact()))
            return Never(NameOfArgument(one) + (one.write ? " might be written" : " is read") + " outside of its " +
                             std::to_string(argument.bytes) + " bytes",
                         one.line),
                   false;
        }
        touched.base = offset.constant + begin;
        touched.bytes = bytes.high;
        touched.hull = {hull.low + begin, hull.high + begin};
        const FormUnits units = forms.UnitsOf(offset);
        touched.units = units.all;
        touched.count = units.count;
      } else {
        touched.hull = {begin, begin + size};
      }
      for (unsigned d = 0; d < 3; ++d) touched.groups[d] = forms.GroupsOf(d);
      if (std::find(touched_.begin(), touched_.end(), touched) == touched_.end()) touched_.push_back(touched);
    }
    return true;
  }

  void ComparePairs(unsigned d) {
    std::size_t pairs = 0;
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      const Touched& write = touched_[i];
      if (!write.access->write) continue;
      for (std::size_t j = 0; j < touched_.size(); ++j) {
        const Touched& other = touched_[j];
        if (launch_.arguments[write.access->argument].memory != launch_.arguments[other.access->argument].memory ||
            (other.access->write && j < i))
          continue;
        if (Apart(write.hull, other.hull)) continue;
        if (++pairs > kCutPairsMax) {
          answers_[d] = {.why_not = "it accesses its buffers in too many ways", .line = 0};
          return;
        }
        if (!other.anywhere &&
            GroupsApart(RemainsOf(write, d, launch_), write.bytes, RemainsOf(other, d, launch_), other.bytes))
          continue;
        answers_[d] = {.why_not = other.access->write
                                      ? "several work-groups along dimension " + std::to_string(d) + " may write the " +
                                            "same of " + NameOfArgument(*write.access)
                                      : "work-groups along dimension " + std::to_string(d) + " may read of " +
                                            NameOfArgument(*other.access) + " data that others write",
                       .line = other.access->line};
        return;
      }
    }
  }

  const KernelAccess& access_;
  const KernelLaunch& launch_;
  std::vector<Touched> touched_;
  std::array<CutAnswer, 3> answers_{};
};

}  // namespace

std::array<CutAnswer, 3> Cuttable(const KernelAccess& access, const KernelLaunch& launch) {
  return CutJudge(access, launch).Judge();
}

}  // namespace weir::kernel
