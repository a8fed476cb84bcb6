// SPDX-License-Identifier: Apache-2.0
#include "core/oversubscribe/rate_caps.h"

#include <algorithm>

namespace weir::core {
namespace {

/// Part of the need that is added: costs vary from frame to frame, and after a late frame the next one comes sooner.
constexpr double kCapMargin = 0.25;

/// The least implied cap. With less, a vGPU could draw too few frames to show what they cost.
constexpr double kLeastCap = 0.1;

/// Sets the caps of vGPUs of the same weight. `heavier`, `lighter`: the sums of the needs of the other vGPUs.
void CapAlike(std::span<RateClaim> alike, double heavier, double lighter) {
  double granted = 0;
  for (RateClaim& claim : alike) {
    if (claim.own_cap) claim.granted = claim.need;
    claim.granted = std::min(claim.granted, claim.need);
    granted += claim.granted;
  }
  const double left = std::max(1 - heavier, 0.0);
  const double stands = granted > left ? left / granted : 1;
  for (RateClaim& claim : alike) {
    if (claim.own_cap) continue;
    granted = std::max(granted - claim.granted, 0.0);
    const double room = std::max(left - granted, claim.granted * stands);
    claim.cap = claim.need > 0 ? std::clamp(claim.need * (1 + kCapMargin), kLeastCap, std::clamp(room, kLeastCap, 1.0))
                               : std::max(left - granted - lighter, kLeastCap);
    claim.granted = std::min(claim.need, claim.cap);
    granted += claim.granted;
  }
}

}  // namespace

void CapRates(std::span<RateClaim> claims) {
  // By id too: the order of the input must have no effect, and the older vGPU goes first.
  std::ranges::sort(claims, [](const RateClaim& a, const RateClaim& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  if (claims.size() == 1 && !claims[0].own_cap) {
    claims[0].cap = 1;
    claims[0].granted = std::min(claims[0].need, 1.0);
    return;
  }
  double heavier = 0, lighter = 0;
  for (const RateClaim& claim : claims) lighter += claim.need;
  for (auto first = claims.begin(); first != claims.end();) {
    const std::uint32_t weight = first->weight;
    const auto end = std::find_if(first, claims.end(), [weight](const auto& claim) { return claim.weight != weight; });
    double needed = 0;
    for (auto at = first; at != end; ++at) needed += at->need;
    lighter = std::max(lighter - needed, 0.0);
    CapAlike({first, end}, heavier, lighter);
    heavier += needed;
    first = end;
  }
}

}  // namespace weir::core
