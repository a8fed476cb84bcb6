// SPDX-License-Identifier: Apache-2.0
#include "kernel/footprint.h"

#include <algorithm>

namespace weir::kernel {
namespace {

/// More read extents of one argument are replaced by one that covers them all.
constexpr std::size_t kReadExtentsMax = 16;

std::uint64_t AsBytes(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Describes the bytes of a form when its units take all their values: whether they are contiguous, and the run's
/// length.
struct Packing {
  bool dense = true;
  std::int64_t run = 0;
};

Packing PackingOf(std::span<const FormUnit> units, std::int64_t bytes) {
  std::array<FormUnit, Form::kTermsMax> sorted{};
  std::copy(units.begin(), units.end(), sorted.begin());
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(units.size());
  const auto step_of = [](const FormUnit& unit) { return unit.factor < 0 ? -unit.factor : unit.factor; };
  std::sort(sorted.begin(), end, [&](const FormUnit& a, const FormUnit& b) { return step_of(a) < step_of(b); });
  Packing packing{.dense = true, .run = bytes};
  for (auto unit = sorted.begin(); unit != end; ++unit) {
    packing.dense = packing.dense && step_of(*unit) <= packing.run;
    packing.run = FarAdd(packing.run, FarMul(step_of(*unit), FarAdd(unit->range.high, -unit->range.low)));
  }
  return packing;
}

/// Converts one access of a part into extents.
class ExtentMaker {
 public:
  ExtentMaker(const LaunchForms& forms, const Form& offset, Interval bytes, std::uint64_t size, bool sure)
      : forms_(forms), offset_(offset), bytes_(bytes), size_(static_cast<std::int64_t>(size)), sure_(sure) {}

  void Append(std::vector<Extent>& out) const {
    const Interval starts = forms_.Bounds(offset_);
    if (!starts.bounded() || !bytes_.bounded() || bytes_.low < 0) return AppendHull(0, size_, false, out);
    if (bytes_.high == 0 || starts.empty()) return;
    const std::int64_t low = starts.low, high = FarAdd(starts.high, bytes_.high);
    const FormUnits units = forms_.UnitsOf(offset_);
    const FormUnit* outer = Outermost(units, high - low);
    if (outer == nullptr || low < 0) {
      const Packing packing = PackingOf(units.span(), bytes_.high);
      return AppendHull(low, high, sure_ && packing.dense && bytes_.single() && packing.run == high - low, out);
    }
    AppendRows(units, *outer, low, high, out);
  }

 private:
  void AppendHull(std::int64_t low, std::int64_t high, bool whole, std::vector<Extent>& out) const {
    const Interval inside = Meet({low, high}, {0, size_});
    if (inside.low >= inside.high) return;
    out.push_back({.begin = AsBytes(inside.low), .bytes = AsBytes(inside.high - inside.low), .whole = whole});
  }

  /// The unit with the largest step, if some bytes between two of its steps are not touched. Null: no unit is like
  /// that, and one run describes all bytes.
  [[nodiscard]] const FormUnit* Outermost(const FormUnits& units, std::int64_t all) const {
    const FormUnit* outer = nullptr;
    for (const FormUnit& unit : units.span())
      if (unit.factor > 0 && !unit.range.single() && (outer == nullptr || unit.factor > outer->factor)) outer = &unit;
    if (outer == nullptr || outer->factor >= all) return nullptr;
    return RunUnder(units, *outer) < outer->factor ? outer : nullptr;
  }

  [[nodiscard]] std::int64_t RunUnder(const FormUnits& units, const FormUnit& outer) const {
    Interval rest{0, 0};
    for (const FormUnit& unit : units.span())
      if (&unit != &outer) rest = rest + unit.range * unit.factor;
    return FarAdd(FarAdd(rest.high, -rest.low), bytes_.high);
  }

  void AppendRows(const FormUnits& units, const FormUnit& outer, std::int64_t low, std::int64_t high,
                  std::vector<Extent>& out) const {
    Interval rest{offset_.constant, offset_.constant};
    std::array<FormUnit, Form::kTermsMax> inner{};
    std::size_t count = 0;
    for (const FormUnit& unit : units.span()) {
      if (&unit == &outer) continue;
      rest = rest + unit.range * unit.factor;
      inner[count++] = unit;
    }
    const Packing packing = PackingOf({inner.data(), count}, bytes_.high);
    const std::int64_t run = RunUnder(units, outer);
    const std::int64_t limit = std::min(high, size_);
    if (!rest.bounded() || low - run - rest.low >= Interval::kFar) return AppendHull(low, high, false, out);
    // Rows that end before `low` are not touched: conditions on several units leave them in the outer unit's range.
    const std::int64_t untouched = FloorDiv(low - run - rest.low, outer.factor) + 1;
    const std::int64_t first = std::max(outer.range.low, untouched);
    std::int64_t begin = rest.low + FarMul(outer.factor, first);
    std::int64_t wanted = FarAdd(outer.range.high, 1 - first);
    if (wanted <= 0) return;
    if (begin < 0) {  // the row that begins before the argument
      AppendHull(low, std::min(limit, begin + run), false, out);
      begin += outer.factor;
      --wanted;
    }
    // Rows that end before the limit become rows of the extent. The bytes of the next row before the limit become a
    // second extent.
    const std::int64_t fit = limit < begin + run ? 0 : (limit - begin - run) / outer.factor + 1;
    const std::int64_t rows = std::min(wanted, fit);
    const bool whole = sure_ && packing.dense && bytes_.single();
    if (rows > 0)
      out.push_back({.begin = AsBytes(begin),
                     .bytes = AsBytes(run),
                     .stride = rows > 1 ? AsBytes(outer.factor) : 0,
                     .rows = AsBytes(rows),
                     .whole = whole});
    const std::int64_t last = begin + rows * outer.factor;
    if (rows < wanted && last < limit) AppendHull(last, std::min(limit, last + run), false, out);
  }

  const LaunchForms& forms_;
  const Form& offset_;
  const Interval bytes_;
  const std::int64_t size_;
  const bool sure_;
};

/// Sorts, and merges overlapping extents. Rows whose gaps are at most as long as their bytes become one run.
void MergeReads(std::vector<Extent>& reads) {
  for (Extent& one : reads) {
    one.whole = false;
    if (one.rows > 1 && 2 * one.bytes >= one.stride) one = {.begin = one.begin, .bytes = one.end() - one.begin};
  }
  const auto merge = [&reads] {
    std::sort(reads.begin(), reads.end(), [](const Extent& a, const Extent& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end() > b.end();
    });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (kept > 0 && reads[i].begin <= reads[kept - 1].end()) {
        Extent& last = reads[kept - 1];
        if (last == reads[i]) continue;
        last = {.begin = last.begin, .bytes = std::max(last.end(), reads[i].end()) - last.begin};
      } else {
        reads[kept++] = reads[i];
      }
    }
    reads.resize(kept);
  };
  merge();
  if (reads.size() <= kReadExtentsMax) return;
  reads = {{.begin = reads.front().begin, .bytes = reads.back().end() - reads.front().begin}};
}

}  // namespace

Result<std::vector<ArgumentFootprint>> FootprintOf(const KernelAccess& access, const KernelLaunch& launch,
                                                   const PartRange& part) {
  WEIR_TRY_STATUS(CheckLaunch(access, launch));
  if (access.verdict == AccessVerdict::kRefuse)
    return Fail(Errc::kInvalidArgument, "kernel '" + access.kernel + "' can't be split: " + access.reason);
  if (part.dimension >= launch.dimensions || part.first >= part.end || part.end > launch.Groups(part.dimension))
    return Fail(Errc::kInvalidArgument, "kernel '" + access.kernel + "': the launch has no such work-groups");
  LaunchForms forms(access, launch);
  forms.Restrict(part);
  std::vector<ArgumentFootprint> footprint(access.arguments.size());
  std::size_t entered = kAccessContextsMax;
  bool reached = false;
  for (const MemoryAccess& one : access.accesses) {
    if (one.context != entered) reached = forms.Enter(one.context);
    entered = one.context;
    if (!reached) continue;
    const Form offset = forms.FormOf(one.offset);
    const Interval bytes = forms.Bounds(forms.FormOf(one.bytes));
    ArgumentFootprint& argument = footprint[one.argument];
    const bool sure = one.write && !one.may && forms.exact() && forms.Fills(offset);
    ExtentMaker(forms, offset, bytes, launch.arguments[one.argument].bytes, sure)
        .Append(one.write ? argument.writes : argument.reads);
  }
  for (ArgumentFootprint& argument : footprint) {
    MergeReads(argument.reads);
    std::sort(argument.writes.begin(), argument.writes.end(), [](const Extent& a, const Extent& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end() < b.end();
    });
    argument.writes.erase(std::unique(argument.writes.begin(), argument.writes.end()), argument.writes.end());
  }
  return footprint;
}

}  // namespace weir::kernel
