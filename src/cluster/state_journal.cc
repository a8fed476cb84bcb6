// SPDX-License-Identifier: Apache-2.0
#include "cluster/state_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "http/json_api.h"

namespace weir::cluster {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kJournalChecksum = ",\"crc32c\":\"";
constexpr std::string_view kJournalLineEnd = "\"}";
constexpr std::size_t kChecksumBytes = kJournalChecksum.size() + kCrc32cDigits + kJournalLineEnd.size();

std::string Checked(const ordered_json& object, std::uint32_t& crc) {
  std::string line = object.dump(-1, ' ', false, json::error_handler_t::replace);
  line.pop_back();  // the checksum is inserted before the closing brace
  crc = Crc32c(line, crc);
  line += std::string(kJournalChecksum) + Crc32cText(crc) + std::string(kJournalLineEnd) + "\n";
  return line;
}

/// The part that the checksum covers; empty: the line has no checksum.
std::string_view CoveredPart(std::string_view line) {
  if (line.size() < kChecksumBytes || !line.ends_with(kJournalLineEnd)) return {};
  const std::string_view tail = line.substr(line.size() - kChecksumBytes);
  return tail.starts_with(kJournalChecksum) ? line.substr(0, line.size() - kChecksumBytes) : std::string_view{};
}

/// Whether the line contains a checksum followed by more text. It then holds more than one record: the end of the
/// previous line is damaged.
bool IsSeveralLines(std::string_view line) {
  const std::size_t at = line.find(kJournalChecksum);
  return at != std::string_view::npos && at + kChecksumBytes < line.size();
}

class JournalReader {
 public:
  /// False: the line is not a valid record of this journal; nothing was changed.
  Result<bool> Take(std::string_view line) {
    const std::string_view covered = CoveredPart(line);
    if (covered.empty() && checked_) return false;
    const std::uint32_t crc = Crc32c(covered, crc_);
    if (!covered.empty() && line.substr(covered.size() + kJournalChecksum.size(), kCrc32cDigits) != Crc32cText(crc))
      return false;
    const json object = http::ParseJson(line);
    if (!object.is_object()) return false;
    const auto fence = object.find("fence");
    if (fence == object.end() || !fence->is_number_unsigned()) return false;
    WEIR_TRY_STATUS(TakeVersion(object));
    const auto set = object.find("set"), gone = object.find("gone");
    if (!AreStrings(object, set, json::value_t::object) || !AreStrings(object, gone, json::value_t::array))
      return false;
    content_.fence = std::max(content_.fence, fence->get<std::uint64_t>());
    if (set != object.end())
      for (const auto& [key, value] : set->items()) content_.records[key] = value.get<std::string>();
    if (gone != object.end())
      for (const json& key : *gone) content_.records.erase(key.get_ref<const std::string&>());
    if (!covered.empty()) {
      checked_ = true;
      crc_ = crc;
    }
    return true;
  }
  JournalContent& content() { return content_; }

 private:
  static bool AreStrings(const json& object, const json::const_iterator& field, json::value_t type) {
    if (field == object.end()) return true;
    if (field->type() != type) return false;
    return std::ranges::all_of(*field, [](const json& one) { return one.is_string(); });
  }
  static Status TakeVersion(const json& object) {
    const auto version = object.find("weir_journal");
    if (version == object.end() || *version == kJournalVersion) return Ok();
    const std::string text = version->is_number() ? version->dump() : "?";
    return Fail(Errc::kVersionMismatch,
                fmt::format("it is a journal of version {}; this manager reads {}", text, kJournalVersion));
  }

  JournalContent content_;
  std::uint32_t crc_ = 0;
  bool checked_ = false;  // a line had a checksum, so that all later lines must have one
};

}  // namespace

std::string JournalWriter::Begin(std::uint64_t fence) {
  crc_ = 0;
  return Checked({{"fence", fence}, {"weir_journal", kJournalVersion}}, crc_);
}

std::string JournalWriter::Line(std::uint64_t fence, std::span<const Change> changes) {
  ordered_json line{{"fence", fence}};
  std::map<std::string, const Change*> last;
  for (const Change& change : changes) last[change.key] = &change;
  for (const auto& [key, change] : last) {
    if (change->value)
      line["set"][key] = *change->value;
    else
      line["gone"].push_back(key);
  }
  return Checked(line, crc_);
}

Result<JournalContent> ParseJournal(std::string_view text) {
  JournalReader reader;
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool whole = end < text.size(), last = end + 1 >= text.size();
    WEIR_TRY(const bool good, whole ? reader.Take(line) : Result<bool>(false));
    // The first line can't be torn: the file was put in place as a whole.
    if (!good && last && number > 1 && !IsSeveralLines(line)) break;
    if (!good) return Fail(Errc::kProtocol, fmt::format("line {} is damaged, or lines before it are missing", number));
    begin = end + 1;
    reader.content().good_bytes = begin;
  }
  return std::move(reader.content());
}

}  // namespace weir::cluster
