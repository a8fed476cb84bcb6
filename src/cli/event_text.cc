// SPDX-License-Identifier: Apache-2.0
#include "cli/event_text.h"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "base/units.h"
#include "cli/common/table.h"

namespace weir::cli {
namespace {

std::string LocalTime(std::int64_t utc_ns) {
  const auto whole = static_cast<std::time_t>(utc_ns / Duration(seconds(1)).count());
  std::tm local{};
  std::array<char, 32> text{};
  if (localtime_r(&whole, &local) == nullptr) return "?";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("{}.{:03}", text.data(), utc_ns / 1'000'000 % 1000);
}

Style StyleOf(const std::string& kind) {
  if (kind == "broken" || kind == "overload" || kind == "refused") return Style::kBad;
  if (kind == "warning" || kind == "at-ceiling" || kind == "not-cut" || kind == "no-memory" || kind == "asked" ||
      kind == "full" || kind == "overpromised")
    return Style::kWarning;
  if (kind == "kept" || kind == "sold" || kind == "sellable" || kind == "left" || kind == "relieved" || kind == "fits")
    return Style::kGood;
  return Style::kAccent;
}

}  // namespace

std::string EventLine(const EventView& event, bool color) {
  const std::string kind = fmt::format("{:<10}", Printable(event.kind));
  const std::string who = Printable(event.vgpu.empty() ? event.device : event.vgpu);
  return fmt::format("{}  {}  {:<14}  {}\n", Styled(LocalTime(event.utc_ns), Style::kFaint, color),
                     Styled(kind, StyleOf(event.kind), color), who, Printable(event.text));
}

}  // namespace weir::cli
