// SPDX-License-Identifier: Apache-2.0
// The parameters of selling, and its words: the names of modes and notes, and why no more can be sold.
#include <fmt/format.h>

#include "core/oversubscribe/oversell.h"

namespace weir::core {
namespace {

constexpr std::array<std::string_view, 4> kModes{"off", "strict", "static", "adaptive"};

}  // namespace

const char* NameOf(OversellMode mode) { return kModes[static_cast<std::size_t>(mode)].data(); }

Result<OversellMode> ModeNamed(std::string_view name) {
  for (std::size_t i = 0; i < kModes.size(); ++i)
    if (kModes[i] == name) return static_cast<OversellMode>(i);
  return Fail(Errc::kInvalidArgument, fmt::format("no way of selling '{}'; known: {}", name, fmt::join(kModes, ", ")));
}

const char* NameOf(OversellNote::Kind kind) {
  switch (kind) {
    case OversellNote::Kind::kOverload: return "overload";
    case OversellNote::Kind::kAtCeiling: return "at-ceiling";
    case OversellNote::Kind::kRegained: return "regained";
    case OversellNote::Kind::kStolen: return "stolen";
    case OversellNote::Kind::kWarning: return "warning";
    case OversellNote::Kind::kRelieved: return "relieved";
    case OversellNote::Kind::kSellable: return "sellable";
    case OversellNote::Kind::kBroken: return "broken";
    case OversellNote::Kind::kKept: return "kept";
  }
  return "unknown";
}

std::string Words(const SalesOffer& offer) {
  std::string sold = fmt::format("{:.0f} % is sold", offer.sold * 100);
  const std::string load =
      offer.load_span > Duration{0} ? fmt::format("of the last {:.0f} s was up to", SecondsOf(offer.load_span)) : "is";
  switch (offer.limit) {
    case SalesOffer::Limit::kSold: return sold;
    case SalesOffer::Limit::kCalm:
      return fmt::format("{}, and {} of {} reports in succession were calm", sold, offer.calm, offer.calm_reports);
    case SalesOffer::Limit::kLoad:
      return fmt::format("{}, and the load {} {:.0f} % of the device (more is sold below {:.0f} %)", sold, load,
                         offer.load * 100, offer.low_line * 100);
    case SalesOffer::Limit::kUnused:
      return fmt::format("{}, the load {} {:.0f} % of the device, and what is sold uses {:.0f} % of itself", sold, load,
                         offer.load * 100, offer.use_of_sold * 100);
  }
  return sold;
}

Result<PolicyParams> CheckOversellParams(const PolicyParams& given) {
  static constexpr PolicyEntry kEntry{"oversell", "", kOversellParams, nullptr};
  for (const auto& [name, value] : given)
    if (std::ranges::find(kOversellParams, name, &PolicyParam::name) == kOversellParams.end()) {
      std::string known;
      for (const PolicyParam& param : kOversellParams)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", param.name);
      return Fail(Errc::kInvalidArgument, fmt::format("selling has no parameter '{}'; known: {}", name, known));
    }
  return CheckParams(kEntry, given);
}

Prices PricesOf(const PolicyParams& checked) {
  const auto set = ParamsFrom<OversellParams>(checked);
  return {.device_hour = set.price,
          .best_effort = set.best_effort_price,
          .penalty = set.penalty,
          .device_cost = set.device_cost};
}

}  // namespace weir::core
