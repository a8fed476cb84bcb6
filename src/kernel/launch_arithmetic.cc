// SPDX-License-Identifier: Apache-2.0
// The operations on affine forms.
#include "kernel/launch_forms.h"

namespace weir::kernel {
namespace {

constexpr unsigned kOddBits = 61;  // values of 61 to 63 bits are unknown: their ranges exceed Interval::kFar

std::int64_t ScalarAt(std::span<const std::byte> value, const Expr& expr) {
  std::uint64_t number = 0;
  for (unsigned i = 0; i < expr.bits / 8U && expr.b + i < value.size(); ++i)
    number |= std::to_integer<std::uint64_t>(value[expr.b + i]) << (8 * i);
  const unsigned unused = 64U - expr.bits;
  return static_cast<std::int64_t>(number << unused) >> unused;
}

std::int64_t Span(Interval interval) { return FarAdd(interval.high, -interval.low); }

}  // namespace

Form LaunchForms::FormOf(std::uint16_t expr) {
  if (marks_[expr] == mark_) return forms_[expr];
  if (++steps_ > kLaunchStepsMax) return {};
  Form form = Evaluate(access_.exprs[expr]);
  forms_[expr] = form;
  marks_[expr] = mark_;
  return form;
}

Form LaunchForms::Auxiliary(Interval range) {
  if (!range.bounded() || range.empty()) return {};
  if (range.single()) return Form::Of(range.low);
  if (ranges_.size() > 0xFFF0) return {};
  ranges_.push_back(range);
  return Form::Symbol(static_cast<std::uint16_t>(ranges_.size() - 1));
}

Form LaunchForms::Signed(const Form& form, unsigned bits) const {
  const Interval bounds = Bounds(form);
  if (!bounds.bounded() || (bits >= kOddBits && bits < 64)) return {};
  if (bits == 64) return form;
  const std::int64_t size = std::int64_t{1} << bits, half = size / 2;
  const std::int64_t turns = FloorDiv(bounds.low + half, size);
  return bounds.high - turns * size < half ? Sum(form, Form::Of(-turns * size)) : Form{};
}

Form LaunchForms::Unsigned(const Form& form, unsigned bits) const {
  const Interval bounds = Bounds(form);
  if (!bounds.bounded() || (bits >= kOddBits && bits < 64)) return {};
  if (bits == 64) return bounds.low >= 0 ? form : Form{};
  const std::int64_t size = std::int64_t{1} << bits;
  const std::int64_t turns = FloorDiv(bounds.low, size);
  return bounds.high - turns * size < size ? Sum(form, Form::Of(-turns * size)) : Form{};
}

// a = divisor * q + r: terms divisible by the divisor go to q, the rest to r; exact if r is from 0 to divisor - 1.
Form LaunchForms::Quotient(const Form& a, std::int64_t divisor, bool remainder) {
  Form q = Form::Of(FloorDiv(a.constant, divisor));
  Form r = Form::Of(a.constant - q.constant * divisor);
  for (std::size_t i = 0; i < a.count; ++i) {
    const auto [symbol, factor] = a.terms[i];
    if (factor % divisor == 0)
      q = Sum(q, Form::Symbol(symbol, factor / divisor));
    else
      r = Sum(r, Form::Symbol(symbol, factor));
  }
  if (Bounds(r).Within(0, divisor - 1)) return remainder ? r : q;
  if (remainder) return Auxiliary({0, divisor - 1});
  const Interval bounds = Bounds(a);
  return Auxiliary({FloorDiv(bounds.low, divisor), FloorDiv(bounds.high, divisor)});
}

Form LaunchForms::Divide(const Expr& expr) {
  const bool is_unsigned = expr.op == ExprOp::kUDiv || expr.op == ExprOp::kURem;
  const bool remainder = expr.op == ExprOp::kURem || expr.op == ExprOp::kSRem;
  const Form divisor = is_unsigned ? Unsigned(FormOf(expr.b), expr.bits) : Signed(FormOf(expr.b), expr.bits);
  const Form a = is_unsigned ? Unsigned(FormOf(expr.a), expr.bits) : Signed(FormOf(expr.a), expr.bits);
  if (!divisor.is_constant() || divisor.constant <= 0) return {};
  if (!a.known) return is_unsigned && remainder ? Auxiliary({0, divisor.constant - 1}) : Form{};
  const Interval bounds = Bounds(a);
  if (bounds.low >= 0) return Quotient(a, divisor.constant, remainder);
  if (remainder) return Auxiliary({1 - divisor.constant, divisor.constant - 1});
  return Auxiliary({bounds.low / divisor.constant, bounds.high / divisor.constant});  // towards zero
}

Form LaunchForms::Least(const Expr& expr) {
  const bool is_signed = expr.op == ExprOp::kSMin || expr.op == ExprOp::kSMax;
  const bool least = expr.op == ExprOp::kSMin || expr.op == ExprOp::kUMin;
  const Form a = is_signed ? Signed(FormOf(expr.a), expr.bits) : Unsigned(FormOf(expr.a), expr.bits);
  const Form b = is_signed ? Signed(FormOf(expr.b), expr.bits) : Unsigned(FormOf(expr.b), expr.bits);
  Interval of_a = Bounds(a), of_b = Bounds(b);
  if (!a.known || !b.known) {
    // If one operand is unknown, only the other's bound remains; the limit of the width replaces the missing bound.
    if (expr.bits > 60 || (!a.known && !b.known)) return {};
    const std::int64_t size = std::int64_t{1} << expr.bits;
    const Interval all = is_signed ? Interval{-size / 2, size / 2 - 1} : Interval{0, size - 1};
    if (!a.known) of_a = all;
    if (!b.known) of_b = all;
  } else {
    const Interval difference = Bounds(Sum(a, b, -1));
    if (difference.high <= 0) return least ? a : b;
    if (difference.low >= 0) return least ? b : a;
  }
  if (least) return Auxiliary({std::min(of_a.low, of_b.low), std::min(of_a.high, of_b.high)});
  return Auxiliary({std::max(of_a.low, of_b.low), std::max(of_a.high, of_b.high)});
}

Form LaunchForms::Masked(const Expr& expr) {
  const Form first = FormOf(expr.a), second = FormOf(expr.b);
  const Form mask = second.is_constant() ? Signed(second, expr.bits) : Signed(first, expr.bits);
  const Form& value = second.is_constant() ? first : second;
  if (expr.bits == 1 || !mask.is_constant()) return {};
  const std::int64_t bits = mask.constant;
  if (bits >= 0 && (bits & (bits + 1)) == 0) {
    // The lowest bits are equal for all numbers that are equal modulo 2^bits.
    if (!value.known || !Bounds(value).bounded()) return Auxiliary({0, bits});
    return Quotient(value, bits + 1, /*remainder=*/true);
  }
  if (bits >= 0) return Auxiliary({0, bits});
  if ((-bits & (-bits - 1)) == 0 && value.known && Bounds(value).bounded())  // all but the lowest bits
    return Sum(value, Quotient(value, -bits, /*remainder=*/true), -1);
  return {};
}

Form LaunchForms::Widened(const Expr& expr) {
  const Expr& inner = access_.exprs[expr.a];
  if (inner.op >= ExprOp::kEq) {
    const Truth truth = Decide(expr.a);
    const std::int64_t yes = expr.op == ExprOp::kSExt ? -1 : 1;
    if (truth != Truth::kEither) return Form::Of(truth == Truth::kTrue ? yes : 0);
    return Auxiliary({std::min<std::int64_t>(yes, 0), std::max<std::int64_t>(yes, 0)});
  }
  const bool is_signed = expr.op == ExprOp::kSExt;
  const Form value = is_signed ? Signed(FormOf(expr.a), inner.bits) : Unsigned(FormOf(expr.a), inner.bits);
  if (value.known || inner.bits >= kOddBits) return value;
  const std::int64_t size = std::int64_t{1} << inner.bits;
  return Auxiliary(is_signed ? Interval{-size / 2, size / 2 - 1} : Interval{0, size - 1});
}

Form LaunchForms::Either(const Form& a, const Form& b) {
  if (!a.known || !b.known) return {};
  const Interval apart = Hull(Bounds(Sum(a, b, -1)), {0, 0});
  const Interval hull = Hull(Bounds(a), Bounds(b));
  if (apart.bounded() && Span(apart) < Span(hull)) return Sum(b, Auxiliary(apart));
  return Auxiliary(hull);
}

Form LaunchForms::Evaluate(const Expr& expr) {
  const std::size_t d = expr.a;
  switch (expr.op) {
    case ExprOp::kConstant: return Sum(Form::Of(expr.value), Form::Of(0));
    case ExprOp::kArgument: return Sum(Form::Of(ScalarAt(launch_.arguments[expr.a].value, expr)), Form::Of(0));
    case ExprOp::kGlobalId: {
      Form id = Form::Symbol(static_cast<std::uint16_t>(kGroupSymbol + d), static_cast<std::int64_t>(launch_.local[d]));
      if (launch_.local[d] > 1) id = Sum(id, Form::Symbol(static_cast<std::uint16_t>(kLocalSymbol + d)));
      return Sum(id, Form::Of(static_cast<std::int64_t>(launch_.offset[d])));
    }
    case ExprOp::kGroupId: return Form::Symbol(static_cast<std::uint16_t>(kGroupSymbol + d));
    case ExprOp::kLocalId:
      return launch_.local[d] > 1 ? Form::Symbol(static_cast<std::uint16_t>(kLocalSymbol + d)) : Form::Of(0);
    case ExprOp::kGlobalSize: return Form::Of(static_cast<std::int64_t>(launch_.global[d]));
    case ExprOp::kLocalSize:
      // In a launch with a partial last group, that group is smaller.
      return launch_.global[d] % launch_.local[d] == 0 ? Form::Of(static_cast<std::int64_t>(launch_.local[d]))
                                                       : Auxiliary({1, static_cast<std::int64_t>(launch_.local[d])});
    case ExprOp::kNumGroups: return Form::Of(static_cast<std::int64_t>(launch_.Groups(static_cast<unsigned>(d))));
    case ExprOp::kGlobalOffset: return Form::Of(static_cast<std::int64_t>(launch_.offset[d]));
    case ExprOp::kWorkDim: return Form::Of(launch_.dimensions);
    case ExprOp::kLoop: return Form::Symbol(static_cast<std::uint16_t>(kLoopSymbol + d));
    case ExprOp::kAdd: return Sum(FormOf(expr.a), FormOf(expr.b));
    case ExprOp::kMul: {
      const Form a = FormOf(expr.a), b = FormOf(expr.b);
      if (!a.known || !b.known) return {};
      if (a.count == 0) return Times(b, a.constant);
      if (b.count == 0) return Times(a, b.constant);
      const Interval of_a = Bounds(a), of_b = Bounds(b);
      return of_a.bounded() && of_b.bounded() ? Auxiliary(of_a * of_b) : Form{};
    }
    case ExprOp::kUDiv:
    case ExprOp::kSDiv:
    case ExprOp::kURem:
    case ExprOp::kSRem: return Divide(expr);
    case ExprOp::kSMin:
    case ExprOp::kSMax:
    case ExprOp::kUMin:
    case ExprOp::kUMax: return Least(expr);
    case ExprOp::kAnd: return Masked(expr);
    case ExprOp::kSExt:
    case ExprOp::kZExt: return Widened(expr);
    case ExprOp::kTrunc: return FormOf(expr.a);  // the same value modulo the smaller power of 2
    case ExprOp::kChoice: return Either(FormOf(expr.a), FormOf(expr.b));
    case ExprOp::kSelect: {
      const Truth truth = Decide(expr.c);
      if (truth != Truth::kEither) return FormOf(truth == Truth::kTrue ? expr.a : expr.b);
      return Either(FormOf(expr.a), FormOf(expr.b));
    }
    default: return {};
  }
}

}  // namespace weir::kernel
