// SPDX-License-Identifier: Apache-2.0
#include "net/key_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <optional>
#include <sstream>

#include "net/key_files.h"
#include "platform/files.h"

namespace weir::net {
namespace {

constexpr const char* kTimeFormat = "%Y-%m-%dT%H:%M:%SZ";

std::string TimeWord(std::int64_t unix_time_s) {
  const std::time_t time = unix_time_s;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&time, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), kTimeFormat, &parts)};
}

std::optional<std::int64_t> TimeOfWord(const std::string& word) {
  std::tm parts{};
  const char* end = ::strptime(word.c_str(), kTimeFormat, &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

/// Lines of SERIAL VGPU TIME. TIME is the expiry of a token, or the time of a revocation. An unknown vGPU is "-".
Result<std::vector<TokenRecord>> ReadRecords(const std::string& path, const OpenFile& open = {}) {
  WEIR_TRY(const std::string text, ReadPublicFile(path, open));
  if (!text.empty() && text.back() != '\n') return Fail(Errc::kProtocol, path + " ends within a line: it was cut");
  std::vector<TokenRecord> records;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    TokenRecord record;
    std::istringstream words(line);
    std::string time, more;
    words >> record.serial >> record.name >> time;
    const std::optional<std::int64_t> at = TimeOfWord(time);
    if (!at || !IsSerial(record.serial) || words >> more)
      return Fail(Errc::kProtocol, fmt::format("{}, line {}: it is not 'SERIAL VGPU TIME'", path, number));
    record.expires = *at;
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

bool IsSerial(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::set<std::string>> ReadRevoked(const std::string& dir, const OpenFile& open) {
  auto records = ReadRecords(RevokedFile(dir), open);
  if (!records) {
    Error error = std::move(records).error();
    error.message += "; without that list no tenant is accepted (an empty file is a list)";
    return error;
  }
  std::set<std::string> serials;
  for (TokenRecord& record : *records) serials.insert(std::move(record.serial));
  return serials;
}

Result<KeyFolder> KeyFolder::Lock(const std::string& dir) {
  if (!HasNodeKeys(dir)) return Fail(Errc::kNotFound, fmt::format("no keys in {}; 'weir keys init' makes them", dir));
  platform::Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return platform::ErrnoError("opening " + dir, errno);
  while (::flock(fd.get(), LOCK_EX) != 0)
    if (errno != EINTR) return platform::ErrnoError("locking " + dir, errno);
  return KeyFolder(dir, std::move(fd));
}

Result<std::vector<TokenRecord>> KeyFolder::Tokens() const {
  WEIR_TRY(std::vector<TokenRecord> records, ReadRecords(*this / "tokens"));
  WEIR_TRY(const std::set<std::string> revoked, ReadRevoked(dir_));
  for (TokenRecord& record : records) record.revoked = revoked.contains(record.serial);
  return records;
}

Status KeyFolder::AddToken(const TokenRecord& record) const {
  return Append("tokens", fmt::format("{} {} {}\n", record.serial, record.name, TimeWord(record.expires)));
}

Status KeyFolder::AddRevoked(const std::vector<TokenRecord>& records, std::int64_t now_s) const {
  std::string lines;
  for (const TokenRecord& record : records)
    lines += fmt::format("{} {} {}\n", record.serial, record.name, TimeWord(now_s));
  return Append("revoked", lines);
}

Status KeyFolder::Append(const std::string& name, const std::string& lines) const {
  WEIR_TRY(const std::string before, ReadPublicFile(*this / name));
  if (before.size() + lines.size() > kKeyFileBytesMax)  // a larger file could not be read again
    return Fail(Errc::kResourceExhausted,
                fmt::format("{} is full ({} bytes): take out tokens that have expired", *this / name, before.size()));
  return platform::WriteFileAtomically(*this / name, before + lines);
}

}  // namespace weir::net
