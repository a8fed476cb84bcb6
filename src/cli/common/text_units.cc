// SPDX-License-Identifier: Apache-2.0
#include "cli/common/text_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

namespace weir::cli {
namespace {

constexpr int kCpuNumberMax = 8191;  // CONFIG_NR_CPUS_RANGE_END of the largest usual kernel
constexpr double kSecondsMax = 1e9;  // about thirty years, so that nanoseconds fit easily into 64 bits
constexpr double kBytesMax = 0x1.0p60;

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr std::array kByteSuffixes{
    Suffix{"", 1},         Suffix{"B", 1},          Suffix{"K", 0x1.0p10}, Suffix{"KiB", 0x1.0p10},
    Suffix{"M", 0x1.0p20}, Suffix{"MiB", 0x1.0p20}, Suffix{"G", 0x1.0p30}, Suffix{"GiB", 0x1.0p30},
    Suffix{"T", 0x1.0p40}, Suffix{"TiB", 0x1.0p40},
};
constexpr std::array kTimeSuffixes{
    Suffix{"", 1},   Suffix{"s", 1},    Suffix{"ms", 1e-3}, Suffix{"us", 1e-6},
    Suffix{"m", 60}, Suffix{"min", 60}, Suffix{"h", 3600},  Suffix{"d", 86'400},
};

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

/// A number without sign at the beginning of a text, and the text after it.
struct Leading {
  double number;
  std::string_view rest;
};
bool TakeNumber(std::string_view text, Leading& out) {
  const char* end = text.data() + text.size();
  const bool plain = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');  // no sign, inf or nan
  if (!plain) return false;
  const auto [stop, error] = std::from_chars(text.data(), end, out.number, std::chars_format::fixed);
  if (error != std::errc{}) return false;
  out.rest = text.substr(static_cast<std::size_t>(stop - text.data()));
  return true;
}

template <std::size_t N>
const Suffix* FindSuffix(const std::array<Suffix, N>& table, std::string_view text) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Suffix& s) { return SameIgnoringCase(s.text, text); });
  return found == table.end() ? nullptr : found;
}

}  // namespace

Result<std::int64_t> ParseWhole(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end)
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' is not a whole number", text));
  return number;
}

Result<double> ParseNumber(std::string_view text) {
  const bool negative = text.starts_with('-');
  Leading leading{};
  if (!TakeNumber(text.substr(negative ? 1 : 0), leading) || !leading.rest.empty())
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' is not a number", text));
  return negative ? -leading.number : leading.number;
}

Result<double> ParseFraction(std::string_view text) {
  Leading leading{};
  if (!TakeNumber(text, leading) || (!leading.rest.empty() && leading.rest != "%"))
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' is not a fraction; write 0.4 or 40%", text));
  return leading.rest.empty() ? leading.number : leading.number / 100;
}

Result<Bytes> ParseBytes(std::string_view text) {
  Leading leading{};
  const Suffix* suffix = TakeNumber(text, leading) ? FindSuffix(kByteSuffixes, leading.rest) : nullptr;
  if (suffix == nullptr)
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' is not an amount of memory; write 512M, 1.5G or 4096", text));
  const double count = leading.number * suffix->factor;
  if (count > kBytesMax) return Fail(Errc::kInvalidArgument, fmt::format("'{}' is more memory than possible", text));
  return Bytes{static_cast<std::uint64_t>(std::llround(count))};
}

Result<MemoryRange> ParseMemoryRange(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    WEIR_TRY(const Bytes max, ParseBytes(text));
    return MemoryRange{Bytes{0}, max};
  }
  WEIR_TRY(const Bytes min, ParseBytes(text.substr(0, colon)));
  WEIR_TRY(const Bytes max, ParseBytes(text.substr(colon + 1)));
  if (max.count != 0 && max < min)
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' has a minimum above its maximum; write MIN:MAX", text));
  return MemoryRange{min, max};
}

Result<std::vector<int>> ParseCpuList(std::string_view text) {
  const Error bad = Fail(Errc::kInvalidArgument, fmt::format("'{}' is not a list of CPUs; write 0-1 or 0,2-3", text));
  std::set<int> cpus;
  for (const std::string& part : SplitList(text)) {
    const std::size_t dash = part.find('-');
    const auto first = ParseWhole(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : ParseWhole(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kCpuNumberMax) return bad;
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  if (cpus.empty()) return bad;
  return std::vector<int>(cpus.begin(), cpus.end());
}

Result<Duration> ParseDuration(std::string_view text) {
  Leading leading{};
  const Suffix* suffix = TakeNumber(text, leading) ? FindSuffix(kTimeSuffixes, leading.rest) : nullptr;
  if (suffix == nullptr)
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is not a span of time; write 15, 1.5s, 250ms, 2m or 30d", text));
  const double count = leading.number * suffix->factor;
  if (count > kSecondsMax) return Fail(Errc::kInvalidArgument, fmt::format("'{}' is too long a span of time", text));
  return FromSeconds(count);
}

Result<NamedValue> ParseNamedValue(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return Fail(Errc::kInvalidArgument, fmt::format("'{}' is not a parameter; write NAME=VALUE", text));
  std::string name(text.substr(0, equals));
  const std::string_view value = text.substr(equals + 1);
  if (auto number = ParseNumber(value)) return NamedValue{std::move(name), *number};
  const auto in_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  if (value.empty() || value.front() < 'a' || value.front() > 'z' || !std::all_of(value.begin(), value.end(), in_word))
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' is neither a number nor the name of a choice, in '{}'", value, text));
  return NamedValue{std::move(name), std::string(value)};
}

std::string FormatBytes(Bytes bytes) {
  constexpr std::array kUnits{"", "K", "M", "G", "T", "P"};
  double amount = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const bool whole = amount == std::floor(amount);
  return whole ? fmt::format("{:.0f}{}", amount, kUnits[unit]) : fmt::format("{:.1f}{}", amount, kUnits[unit]);
}

std::string FormatDuration(Duration span) {
  const double s = SecondsOf(span);
  if (s < 1) return fmt::format("{:.0f} ms", s * 1e3);
  if (s < 60) return s == std::floor(s) ? fmt::format("{:.0f} s", s) : fmt::format("{:.1f} s", s);
  const auto minutes = static_cast<std::int64_t>(s / 60);
  if (minutes < 60) return fmt::format("{} min {} s", minutes, static_cast<std::int64_t>(s) % 60);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / 1440, minutes / 60 % 24);
}

std::string FormatPercent(double fraction) {
  const double percent = fraction * 100;
  return percent > 0 && percent < 9.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

}  // namespace weir::cli
