// SPDX-License-Identifier: Apache-2.0
#include "drivers/slurm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace weir::drivers {
namespace {

constexpr std::int64_t kLicencesMax = 1'000'000;
constexpr std::size_t kSlurmJobsMax = 100'000;
constexpr std::size_t kShownBytesMax = 80;

/// The text that could not be parsed, shortened and made printable.
std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShownBytesMax)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (text.size() > kShownBytesMax ? "…" : "");
}

Error NotUnderstood(std::string_view what, std::string_view text) {
  return Fail(Errc::kProtocol, fmt::format("cannot read {} in Slurm's output: '{}'", what, Shown(text)));
}

Result<std::int64_t> ParseCount(std::string_view text, std::string_view what, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0 || value > max)
    return NotUnderstood(what, text);
  return value;
}

/// Removes and returns the text before `separator`, or all of it.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

/// The text's only line.
Result<std::string_view> OnlyLine(std::string_view text, std::string_view what) {
  const std::string_view line = TakeUntil(text, '\n');
  if (!text.empty()) return NotUnderstood(what, text);
  return line;
}

/// The value of "Key=value" among words; the key must occur once.
Result<std::string_view> FieldOf(std::string_view line, std::string_view key) {
  std::optional<std::string_view> found;
  for (std::string_view rest = line; !rest.empty();) {
    std::string_view value = TakeUntil(rest, ' ');
    if (value.find('=') == std::string_view::npos || TakeUntil(value, '=') != key) continue;
    if (found) return NotUnderstood(key, line);
    found = value;
  }
  if (!found) return NotUnderstood(key, line);
  return *found;
}

}  // namespace

Result<std::optional<SlurmLicence>> ParseSlurmLicence(std::string_view text, std::string_view name) {
  if (text.empty() || text == "\n") return std::optional<SlurmLicence>();
  WEIR_TRY(const std::string_view line, OnlyLine(text, "a licence"));
  WEIR_TRY(const std::string_view said, FieldOf(line, "LicenseName"));
  if (said != name) return NotUnderstood("the licence's name", said);
  WEIR_TRY(const std::string_view total, FieldOf(line, "Total"));
  WEIR_TRY(const std::string_view used, FieldOf(line, "Used"));
  SlurmLicence licence;
  WEIR_TRY(licence.total, ParseCount(total, "Total", kLicencesMax));
  WEIR_TRY(licence.used, ParseCount(used, "Used", kLicencesMax));
  return std::optional<SlurmLicence>(licence);
}

Result<std::int64_t> ParseSlurmHold(std::string_view text, std::string_view reservation, std::string_view licence) {
  WEIR_TRY(const std::string_view line, OnlyLine(text, "a reservation"));
  WEIR_TRY(const std::string_view said, FieldOf(line, "ReservationName"));
  if (said != reservation) return NotUnderstood("the reservation's name", said);
  WEIR_TRY(const std::string_view licences, FieldOf(line, "Licenses"));
  return CountLicences(licences, licence);
}

Result<std::int64_t> CountLicences(std::string_view list, std::string_view licence) {
  if (list.empty() || list == "(null)") return 0;
  std::int64_t count = 0;
  for (std::string_view rest = list; !rest.empty();) {
    std::string_view item = TakeUntil(rest, ',');
    const bool counted = item.find(':') != std::string_view::npos;
    const std::string_view name = TakeUntil(item, ':');
    if (!CheckSlurmName(name.substr(0, name.find('@')), "a licence")) return NotUnderstood("a list of licences", list);
    std::int64_t n = 1;
    if (counted) {
      WEIR_TRY(n, ParseCount(item, "a number of licences", kLicencesMax));
    }
    if (name == licence) count += n;
  }
  return count;
}

Result<std::vector<Grant>> ParseSlurmJobs(std::string_view text, std::string_view licence) {
  std::vector<Grant> grants;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeUntil(rest, '\n');
    if (std::ranges::count(line, '|') != 2) return NotUnderstood("a job", line);
    const std::string_view id = TakeUntil(line, '|'), uid = TakeUntil(line, '|');
    WEIR_TRY(const std::int64_t job, ParseCount(id, "a job's number", std::numeric_limits<std::uint32_t>::max()));
    WEIR_TRY(const std::int64_t user, ParseCount(uid, "a job's user", std::numeric_limits<std::uint32_t>::max() - 1));
    WEIR_TRY(const std::int64_t shares, CountLicences(line, licence));
    if (shares == 0) continue;
    if (grants.size() == kSlurmJobsMax) return NotUnderstood(fmt::format("more than {} jobs", kSlurmJobsMax), "");
    grants.push_back({.consumer = std::to_string(job), .shares = shares, .uid = static_cast<uid_t>(user)});
  }
  std::ranges::sort(grants, {}, &Grant::consumer);
  const auto twice = std::ranges::adjacent_find(grants, {}, &Grant::consumer);
  if (twice != grants.end()) return NotUnderstood("a job that is listed twice", twice->consumer);
  return grants;
}

Status CheckSlurmName(std::string_view name, std::string_view what) {
  const bool good = !name.empty() && name.size() <= 64 && name.front() != '-' && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '.';
  });
  if (good) return Ok();
  return Fail(
      Errc::kInvalidArgument,
      fmt::format("'{}' can't be the name of {}: 1 to 64 letters, digits, '_', '-' and '.'", Shown(name), what));
}

}  // namespace weir::drivers
