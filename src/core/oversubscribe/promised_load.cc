// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/promised_load.h"

#include <algorithm>

namespace weir::core {

double NeedOf(Duration interval, Duration cost, Share cap) {
  if (interval <= Duration{0}) return 0;
  return std::min(SecondsOf(cost) / SecondsOf(interval), cap.Fraction());
}

void Grant(std::span<PromiseClaim> claims, double device) {
  // By id too: sums of floating-point numbers depend on their order, and the order of the input must have no effect.
  std::ranges::sort(claims, [](const PromiseClaim& a, const PromiseClaim& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  double left = device;
  for (auto first = claims.begin(); first != claims.end();) {
    const std::uint32_t weight = first->weight;
    const auto end = std::find_if(first, claims.end(), [weight](const auto& claim) { return claim.weight != weight; });
    double needed = 0;
    for (auto at = first; at != end; ++at) needed += at->need;
    const double part = needed <= left ? 1 : left / needed;
    for (; first != end; ++first) first->granted = first->need * part;
    left = std::max(left - needed, 0.0);
  }
}

FitWatch::Change FitWatch::See(double load) {
  const bool contradicts = fits_ ? load > kOver : load < kFits;
  differs_ = contradicts ? differs_ + 1 : 0;
  if (differs_ < kChecks) return Change::kNone;
  differs_ = 0;
  fits_ = !fits_;
  return fits_ ? Change::kFits : Change::kOver;
}

}  // namespace weir::core
