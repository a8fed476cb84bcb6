// SPDX-License-Identifier: Apache-2.0
// Values in the syntax of the command line: 512M, 1G:4G, 40%, 250ms, 0-3,6; parsing and formatting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/split.h"
#include "base/units.h"

namespace weir::cli {

struct MemoryRange {
  Bytes min;
  Bytes max;
  friend constexpr auto operator<=>(const MemoryRange&, const MemoryRange&) = default;
};

/// A parameter of a policy, NAME=VALUE. The value is a number, or the name of a choice.
using NamedValue = std::pair<std::string, std::variant<double, std::string>>;

Result<std::int64_t> ParseWhole(std::string_view text);
Result<double> ParseNumber(std::string_view text);
Result<double> ParseFraction(std::string_view text);           // 0.4 or 40%
Result<Bytes> ParseBytes(std::string_view text);               // 4096, 512M, 64MiB, 1.5G; powers of 1024
Result<MemoryRange> ParseMemoryRange(std::string_view text);   // MIN:MAX, or just MAX
Result<std::vector<int>> ParseCpuList(std::string_view text);  // 0-1,4
Result<Duration> ParseDuration(std::string_view text);         // 15 (seconds), 1.5s, 250ms, 2m, 30d
Result<NamedValue> ParseNamedValue(std::string_view text);     // period_ms=1, sync=finish

std::string FormatBytes(Bytes bytes);        // "1.5G"; "0" is "0"
std::string FormatDuration(Duration span);   // "1 h 3 min", "12 s", "350 ms"
std::string FormatPercent(double fraction);  // "31 %"; small values with a decimal, "0.4 %"

}  // namespace weir::cli
