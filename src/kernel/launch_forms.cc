// SPDX-License-Identifier: Apache-2.0
// Contexts and the bounds that they imply; arithmetic is in launch_arithmetic.cc.
#include "kernel/launch_forms.h"

namespace weir::kernel {
namespace {

constexpr std::uint64_t kLaunchMax = std::uint64_t{1} << 40;
constexpr std::size_t kConstraintsMax = 8;

}  // namespace

Status CheckLaunch(const KernelAccess& access, const KernelLaunch& launch) {
  const auto fail = [&](const std::string& what) {
    return Fail(Errc::kInvalidArgument, "kernel '" + access.kernel + "' can't be launched so: " + what);
  };
  if (launch.dimensions < 1 || launch.dimensions > 3) return fail("it has 1 to 3 dimensions");
  for (unsigned d = 0; d < 3; ++d) {
    if (launch.global[d] < 1 || launch.global[d] > kLaunchMax || launch.local[d] < 1 ||
        launch.local[d] > launch.global[d] || launch.offset[d] > kLaunchMax)
      return fail("a size is 0 or above 2^40, or a work-group is larger than the launch");
    if (d >= launch.dimensions && (launch.global[d] != 1 || launch.offset[d] != 0))
      return fail("a dimension that it has not has a size");
  }
  if (launch.arguments.size() != access.arguments.size())
    return fail("it has " + std::to_string(access.arguments.size()) + " arguments");
  for (std::size_t i = 0; i < access.arguments.size(); ++i) {
    const KernelArgument& wanted = access.arguments[i];
    if (wanted.kind == ArgumentKind::kScalar && launch.arguments[i].value.size() != wanted.bytes)
      return fail("argument " + std::to_string(i) + " is of " + std::to_string(wanted.bytes) + " bytes");
    if (launch.arguments[i].bytes > kLaunchMax || launch.arguments[i].offset > kLaunchMax)
      return fail("a buffer is larger than 2^40 bytes");
  }
  return Ok();
}

LaunchForms::LaunchForms(const KernelAccess& access, const KernelLaunch& launch)
    : access_(access),
      launch_(launch),
      ranges_(kLoopSymbol + std::size_t{access.loops}),
      forms_(access.exprs.size()),
      marks_(access.exprs.size(), 0) {
  for (unsigned d = 0; d < 3; ++d) {
    whole_ids_[d] = {0, static_cast<std::int64_t>(launch.global[d]) - 1};
    whole_groups_[d] = {0, static_cast<std::int64_t>(launch.Groups(d)) - 1};
  }
}

void LaunchForms::Restrict(const PartRange& part) {
  const auto size = static_cast<std::int64_t>(launch_.local[part.dimension]);
  const auto first = static_cast<std::int64_t>(part.first), end = static_cast<std::int64_t>(part.end);
  whole_groups_[part.dimension] = {first, end - 1};
  whole_ids_[part.dimension] =
      Meet({0, static_cast<std::int64_t>(launch_.global[part.dimension]) - 1}, {first * size, end * size - 1});
}

void LaunchForms::Forget() { ++mark_; }

bool LaunchForms::Enter(std::uint16_t context) {
  feasible_ = exact_ = true;
  constraints_.clear();
  ids_ = whole_ids_;
  ranges_.resize(kLoopSymbol + std::size_t{access_.loops});
  for (unsigned d = 0; d < 3; ++d) {
    ranges_[kGroupSymbol + d] = whole_groups_[d];
    ranges_[kLocalSymbol + d] = {0, static_cast<std::int64_t>(launch_.local[d]) - 1};
    if (whole_groups_[d].empty()) return feasible_ = false;
  }
  for (std::size_t i = kLoopSymbol; i < ranges_.size(); ++i) ranges_[i] = {0, Interval::kFar};
  chain_.clear();
  for (std::uint16_t at = context; at != 0; at = access_.contexts[at].parent) chain_.push_back(at);
  // Two rounds: bounds from inner conditions may make the arithmetic of an outer condition known.
  for (std::size_t round = 0; round < (chain_.size() > 1 ? 2U : 1U) && feasible_; ++round) {
    constraints_.clear();
    Forget();
    BoundLoops();
    for (std::size_t i = chain_.size(); i-- > 0 && feasible_;) {
      Forget();
      Assume(access_.contexts[chain_[i]].condition, access_.contexts[chain_[i]].holds);
    }
  }
  Forget();
  if (feasible_) BoundLoops();
  Forget();
  return feasible_;
}

FormUnits LaunchForms::UnitsOf(const Form& form) const {
  FormUnits units;
  for (std::uint16_t d = 0; d < 3; ++d) {
    const std::int64_t group = form.FactorOf(kGroupSymbol + d), local = form.FactorOf(kLocalSymbol + d);
    const auto size = static_cast<std::int64_t>(launch_.local[d]);
    const auto symbol = static_cast<std::uint16_t>(kGroupSymbol + d);
    if (size == 1) {
      if (group != 0) units.all[units.count++] = {symbol, true, group, ids_[d]};
    } else if (local != 0 && group == FarMul(local, size)) {
      units.all[units.count++] = {symbol, true, local, ids_[d]};
    } else {
      if (group != 0) units.all[units.count++] = {symbol, false, group, ranges_[symbol]};
      if (local != 0)
        units.all[units.count++] = {static_cast<std::uint16_t>(kLocalSymbol + d), false, local,
                                    ranges_[kLocalSymbol + d]};
    }
  }
  for (std::size_t i = 0; i < form.count; ++i)
    if (form.terms[i].symbol >= kLoopSymbol)
      units.all[units.count++] = {form.terms[i].symbol, false, form.terms[i].factor, ranges_[form.terms[i].symbol]};
  return units;
}

Interval LaunchForms::BoxBounds(const Form& form) const {
  if (!form.known) return {};
  Interval sum{form.constant, form.constant};
  const FormUnits units = UnitsOf(form);
  for (const FormUnit& unit : units.span()) sum = sum + unit.range * unit.factor;
  return sum;
}

// Where f >= 0, g <= g + t f for every t >= 0; t is chosen so that one unit cancels. (Lagrangian relaxation with one
// multiplier.)
Interval LaunchForms::Bounds(const Form& form) const {
  Interval best = BoxBounds(form);
  if (constraints_.empty() || !form.known || form.count < 1) return best;
  const FormUnits units = UnitsOf(form);
  for (const Form& constraint : constraints_) {
    const FormUnits known = UnitsOf(constraint);
    for (const FormUnit& unit : units.span())
      for (const FormUnit& other : known.span()) {
        if (other.symbol != unit.symbol || other.is_id != unit.is_id) continue;
        if (++steps_ > kLaunchStepsMax) return best;
        const std::int64_t scale = other.factor < 0 ? -other.factor : other.factor;
        const std::int64_t times = unit.factor < 0 ? -unit.factor : unit.factor;
        const bool opposite = (unit.factor < 0) != (other.factor < 0);
        const Interval relaxed = BoxBounds(Sum(Times(form, scale), constraint, opposite ? times : -times));
        if (opposite && relaxed.high < Interval::kFar)
          best.high = std::min(best.high, FloorDiv(relaxed.high, scale));
        else if (!opposite && relaxed.low > -Interval::kFar)
          best.low = std::max(best.low, CeilDiv(relaxed.low, scale));
      }
  }
  return best;
}

void LaunchForms::Narrow(const FormUnit& unit, Interval to) {
  if (!unit.is_id) {
    Interval& range = ranges_[unit.symbol];
    range = Meet(range, to);
    feasible_ = feasible_ && !range.empty();
    if (unit.symbol >= kGroupSymbol && unit.symbol < kLocalSymbol && feasible_) {
      const unsigned d = unit.symbol - kGroupSymbol;
      const auto size = static_cast<std::int64_t>(launch_.local[d]);
      ids_[d] = Meet(ids_[d], {range.low * size, range.high * size + size - 1});
      feasible_ = !ids_[d].empty();
    }
    return;
  }
  const unsigned d = unit.symbol - kGroupSymbol;
  const auto size = static_cast<std::int64_t>(launch_.local[d]);
  ids_[d] = Meet(ids_[d], to);
  feasible_ = feasible_ && !ids_[d].empty();
  if (!feasible_) return;
  ranges_[unit.symbol] = Meet(ranges_[unit.symbol], {FloorDiv(ids_[d].low, size), FloorDiv(ids_[d].high, size)});
  feasible_ = !ranges_[unit.symbol].empty();
}

void LaunchForms::AssumeAtLeast0(const Form& form) {
  if (!form.known) {
    exact_ = false;
    return;
  }
  const FormUnits units = UnitsOf(form);
  if (units.count == 0) {
    feasible_ = feasible_ && form.constant >= 0;
    return;
  }
  for (std::size_t i = 0; i < units.count && feasible_; ++i) {
    const FormUnit& unit = units.all[i];
    // Neither an id nor a loop: only the interval of its value is known.
    if (unit.symbol >= kLoopSymbol + std::size_t{access_.loops}) exact_ = false;
    std::int64_t rest = form.constant;  // upper bound of all other terms
    for (std::size_t j = 0; j < units.count; ++j)
      if (j != i) rest = FarAdd(rest, (units.all[j].range * units.all[j].factor).high);
    if (rest >= Interval::kFar || rest <= -Interval::kFar) continue;
    Interval to;
    if (unit.factor > 0)
      to.low = CeilDiv(-rest, unit.factor);
    else
      to.high = FloorDiv(rest, -unit.factor);
    Narrow(unit, to);
  }
  if (units.count < 2 || !feasible_ || BoxBounds(form).low >= 0) return;
  exact_ = false;
  if (constraints_.size() < kConstraintsMax) constraints_.push_back(form);
}

void LaunchForms::AssumeNot0(const Form& difference) {
  const Interval bounds = Bounds(difference);
  if (bounds.low > 0 || bounds.high < 0) return;
  if (bounds.single()) {
    feasible_ = false;
    return;
  }
  const FormUnits units = UnitsOf(difference);
  if (units.count == 1 && (bounds.low == 0 || bounds.high == 0)) {
    // 0 is one end of the range, so the next value is at least 1 away.
    AssumeAtLeast0(bounds.low == 0 ? Sum(difference, Form::Of(-1)) : Sum(Form::Of(-1), difference, -1));
    return;
  }
  exact_ = false;
}

Form LaunchForms::Difference(const Expr& comparison, bool holds, bool& equality, bool& low_too) {
  const unsigned bits = comparison.bits;
  const Form a = FormOf(comparison.a), b = FormOf(comparison.b);
  equality = comparison.op == ExprOp::kEq || comparison.op == ExprOp::kNe;
  low_too = false;
  const bool is_signed = equality || comparison.op == ExprOp::kSLt || comparison.op == ExprOp::kSLe;
  const bool strict = comparison.op == ExprOp::kSLt || comparison.op == ExprOp::kULt;
  Form left = is_signed ? Signed(a, bits) : Unsigned(a, bits);
  const Form right = is_signed ? Signed(b, bits) : Unsigned(b, bits);
  if (!is_signed && holds && !left.known && right.known) {
    // An unsigned value that is below a bound of at most 2^(bits-1) is the same number when read as signed: it is not
    // negative, and the signed comparison holds, too.
    const Interval most = Bounds(right);
    const Form plain = Signed(a, bits);
    if (plain.known && (bits == 64 || most.high <= (std::int64_t{1} << (bits - 1)) - 1)) {
      left = plain;
      low_too = true;
    }
  }
  if (!left.known || !right.known) return {};
  if (equality) return Sum(left, right, -1);
  return holds ? Sum(Sum(right, left, -1), Form::Of(strict ? -1 : 0))
               : Sum(Sum(left, right, -1), Form::Of(strict ? 0 : -1));
}

LaunchForms::Truth LaunchForms::Decide(std::uint16_t condition) {
  const Expr& expr = access_.exprs[condition];
  if (expr.op == ExprOp::kConstant) return (expr.value & 1) != 0 ? Truth::kTrue : Truth::kFalse;
  if (expr.op < ExprOp::kEq) return Truth::kEither;
  bool equality = false, low_too = false;
  const Interval difference = Bounds(Difference(expr, true, equality, low_too));
  if (equality) {
    const bool never = difference.low > 0 || difference.high < 0;
    const bool always = difference.single() && difference.low == 0;
    if (!never && !always) return Truth::kEither;
    return always == (expr.op == ExprOp::kEq) ? Truth::kTrue : Truth::kFalse;
  }
  if (difference.high < 0) return Truth::kFalse;
  return difference.low >= 0 && !low_too ? Truth::kTrue : Truth::kEither;
}

void LaunchForms::Assume(std::uint16_t condition, bool holds) {
  const Expr& expr = access_.exprs[condition];
  if (expr.op == ExprOp::kConstant) {
    feasible_ = feasible_ && ((expr.value & 1) != 0) == holds;
    return;
  }
  if (expr.op < ExprOp::kEq) {
    exact_ = false;
    return;
  }
  bool equality = false, low_too = false;
  const Form difference = Difference(expr, holds, equality, low_too);
  if (!difference.known) {
    exact_ = false;
    return;
  }
  if (!equality) {
    if (low_too) AssumeAtLeast0(Signed(FormOf(expr.a), expr.bits));
    if (feasible_) AssumeAtLeast0(difference);
  } else if (holds == (expr.op == ExprOp::kEq)) {
    AssumeAtLeast0(difference);
    if (feasible_) AssumeAtLeast0(Times(difference, -1));
  } else {
    AssumeNot0(difference);
  }
}

bool LaunchForms::Fills(const Form& form) const {
  for (std::size_t i = 0; i < form.count; ++i) {
    const std::size_t symbol = form.terms[i].symbol;
    if (symbol < kLoopSymbol) continue;
    if (symbol >= kLoopSymbol + loop_known_.size() || !loop_known_[symbol - kLoopSymbol]) return false;
  }
  const FormUnits units = UnitsOf(form);
  for (unsigned d = 0; d < 3; ++d) {
    const auto size = static_cast<std::int64_t>(launch_.local[d]);
    const Interval groups = ranges_[kGroupSymbol + d], local = ranges_[kLocalSymbol + d];
    const bool even = launch_.global[d] % launch_.local[d] == 0;
    const bool whole_local = even && local == Interval{0, size - 1};
    const bool whole_ids = even && ids_[d] == Interval{groups.low * size, groups.high * size + size - 1};
    for (const FormUnit& unit : units.span()) {
      if (unit.symbol != kGroupSymbol + d && unit.symbol != kLocalSymbol + d) continue;
      if (unit.is_id ? local != Interval{0, size - 1} : !whole_ids) return false;
    }
    if (!whole_local && !whole_ids) return false;
  }
  return true;
}

void LaunchForms::BoundLoops() {
  loop_known_.assign(access_.loops, false);
  std::vector<bool> seen(access_.loops, false);
  for (const LoopTest& test : access_.tests) {
    const Form way = Sum(FormOf(test.bound), FormOf(test.start), -1);
    loop_known_[test.loop] = !seen[test.loop] && way.is_constant();
    seen[test.loop] = true;
    const std::int64_t rounds = RoundsOf(test);  // before `range` is taken: RoundsOf may grow ranges_
    Interval& range = ranges_[kLoopSymbol + std::size_t{test.loop}];
    range.high = std::min(range.high, std::max(range.low, rounds));
  }
}

std::int64_t LaunchForms::RoundsOf(const LoopTest& test) {
  const unsigned bits = access_.exprs[test.start].bits;
  const bool is_unsigned = test.test == ExprOp::kULt || test.test == ExprOp::kULe;
  const auto plain = [&](std::uint16_t expr) {
    return is_unsigned ? Unsigned(FormOf(expr), bits) : Signed(FormOf(expr), bits);
  };
  const Form start = plain(test.start), bound = plain(test.bound), step_form = Signed(FormOf(test.step), bits);
  if (!start.known || !bound.known || !step_form.is_constant() || bits > 64 || (bits > 60 && bits < 64))
    return Interval::kFar;
  const std::int64_t step = test.descending ? -step_form.constant : step_form.constant;
  const Interval way = Bounds(test.descending ? Sum(start, bound, -1) : Sum(bound, start, -1));
  if (test.test == ExprOp::kNe) {
    const std::int64_t towards = step_form.constant < 0 ? -1 : 1;
    const Interval distance = Bounds(Times(Sum(bound, start, -1), towards));
    const bool arrives = step_form.constant == towards;
    return arrives && distance.low >= 0 ? distance.high : Interval::kFar;
  }
  if (step <= 0 || !way.bounded()) return Interval::kFar;
  const bool strict = test.test == ExprOp::kSLt || test.test == ExprOp::kULt;
  // The first X that fails the test must not have wrapped around.
  const Interval limit = Bounds(bound);
  if (!limit.bounded()) return Interval::kFar;
  const std::int64_t slack = strict ? 1 : 0;
  if (test.descending) {
    const std::int64_t least = is_unsigned ? 0 : bits == 64 ? -Interval::kFar : -(std::int64_t{1} << (bits - 1));
    if (FarAdd(limit.low, slack - step) < least) return Interval::kFar;
  } else {
    const unsigned top = is_unsigned ? bits : bits - 1;
    const std::int64_t most = bits == 64 ? Interval::kFar : (std::int64_t{1} << top) - 1;
    if (FarAdd(limit.high, step - slack) > most) return Interval::kFar;
  }
  const std::int64_t distance = FarAdd(way.high, 1 - slack);
  return distance <= 0 ? 0 : CeilDiv(distance, step);
}

}  // namespace weir::kernel
