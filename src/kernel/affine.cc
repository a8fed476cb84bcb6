// SPDX-License-Identifier: Apache-2.0
#include "kernel/affine.h"

namespace weir::kernel {
namespace {

std::int64_t Saturated(__int128 value) {
  if (value >= Interval::kFar) return Interval::kFar;
  if (value <= -Interval::kFar) return -Interval::kFar;
  return static_cast<std::int64_t>(value);
}

bool IsFar(std::int64_t value) { return value >= Interval::kFar || value <= -Interval::kFar; }

}  // namespace

std::int64_t FarAdd(std::int64_t a, std::int64_t b) {
  if (IsFar(a)) return a;  // callers add bounds of the same side, so never opposite infinities
  if (IsFar(b)) return b;
  return Saturated(static_cast<__int128>(a) + b);
}

std::int64_t FarMul(std::int64_t a, std::int64_t b) { return Saturated(static_cast<__int128>(a) * b); }

/// The sum of opposite infinities is unbounded.
Interval operator+(Interval a, Interval b) {
  const auto opposite = [](std::int64_t x, std::int64_t y) { return IsFar(x) && IsFar(y) && (x > 0) != (y > 0); };
  return {opposite(a.low, b.low) ? -Interval::kFar : FarAdd(a.low, b.low),
          opposite(a.high, b.high) ? Interval::kFar : FarAdd(a.high, b.high)};
}

Interval operator*(Interval a, std::int64_t factor) {
  if (factor == 0) return {0, 0};
  const std::int64_t first = FarMul(a.low, factor), second = FarMul(a.high, factor);
  return {std::min(first, second), std::max(first, second)};
}

Interval operator*(Interval a, Interval b) { return Hull(a * b.low, a * b.high); }

Interval Hull(Interval a, Interval b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }
Interval Meet(Interval a, Interval b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

std::int64_t FloorDiv(std::int64_t a, std::int64_t b) {
  if (IsFar(a)) return a;
  return a / b - ((a % b != 0 && a < 0) ? 1 : 0);
}

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) {
  if (IsFar(a)) return a;
  return a / b + ((a % b != 0 && a > 0) ? 1 : 0);
}

Form Form::Symbol(std::uint16_t symbol, std::int64_t factor) {
  Form form = Of(0);
  if (factor == 0) return form;
  form.count = 1;
  form.terms[0] = {symbol, factor};
  return form;
}

std::int64_t Form::FactorOf(std::uint16_t symbol) const {
  for (std::size_t i = 0; i < count; ++i)
    if (terms[i].symbol == symbol) return terms[i].factor;
  return 0;
}

Form Form::Without(std::uint16_t symbol) const {
  Form form = *this;
  form.count = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (terms[i].symbol != symbol) form.terms[form.count++] = terms[i];
  return form;
}

Form Sum(const Form& a, const Form& b, std::int64_t factor_of_b) {
  if (!a.known || !b.known) return {};
  Form sum = Form::Of(0);
  const auto add = [](std::int64_t x, std::int64_t y, std::int64_t factor, std::int64_t& out) {
    const __int128 value = x + static_cast<__int128>(y) * factor;
    out = static_cast<std::int64_t>(value);
    return value < Interval::kFar && value > -Interval::kFar;
  };
  if (!add(a.constant, b.constant, factor_of_b, sum.constant)) return {};
  for (std::size_t i = 0, j = 0; i < a.count || j < b.count;) {
    Form::Term term;
    const bool from_a = j == b.count || (i < a.count && a.terms[i].symbol <= b.terms[j].symbol);
    const bool from_b = i == a.count || (j < b.count && b.terms[j].symbol <= a.terms[i].symbol);
    term.symbol = from_a ? a.terms[i].symbol : b.terms[j].symbol;
    if (!add(from_a ? a.terms[i].factor : 0, from_b ? b.terms[j].factor : 0, factor_of_b, term.factor)) return {};
    i += from_a ? 1 : 0;
    j += from_b ? 1 : 0;
    if (term.factor == 0) continue;
    if (sum.count == Form::kTermsMax) return {};
    sum.terms[sum.count++] = term;
  }
  return sum;
}

Form Times(const Form& a, std::int64_t factor) { return Sum(Form::Of(0), a, factor); }

}  // namespace weir::kernel
