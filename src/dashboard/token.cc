// SPDX-License-Identifier: Apache-2.0
#include "dashboard/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "platform/fd.h"

namespace weir::dashboard {
namespace {

struct Found {
  bool exists = false;
  std::string token;  // empty: the file is not one that this program has made
};

Result<Found> FindToken(const std::string& path) {
  const platform::Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ELOOP) return Found{.exists = errno == ELOOP, .token = {}};
    return platform::ErrnoError("reading " + path, errno);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return platform::ErrnoError("reading " + path, errno);
  const bool ours = S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
  std::array<char, kTokenDigits + 2> bytes{};
  const ssize_t got = ours ? ::read(fd.get(), bytes.data(), bytes.size()) : 0;
  if (got != static_cast<ssize_t>(kTokenDigits) + 1 || bytes[kTokenDigits] != '\n')
    return Found{.exists = true, .token = {}};
  std::string token(bytes.data(), kTokenDigits);
  return Found{.exists = true, .token = IsToken(token) ? std::move(token) : std::string()};
}

/// False: another process has made the file first.
Result<bool> MakeTokenFile(const std::string& path, const std::string& token) {
  const std::string beside = fmt::format("{}.{}", path, ::getpid());
  ::unlink(beside.c_str());  // left by a killed process that had the same pid
  const platform::Fd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return platform::ErrnoError("making " + beside, errno);
  const std::string line = token + "\n";
  const bool written = ::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::link(beside.c_str(), path.c_str()) == 0;
  const int error = errno;
  ::unlink(beside.c_str());
  if (written) return true;
  if (error == EEXIST) return false;
  return platform::ErrnoError("making " + path, error);
}

}  // namespace

Result<std::string> NewToken() {
  std::array<unsigned char, kTokenDigits / 2> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return platform::ErrnoError("reading random bytes", errno);
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

bool IsToken(std::string_view text) {
  return text.size() == kTokenDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<std::string> KeepToken(const std::string& path) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    WEIR_TRY(Found found, FindToken(path));
    if (!found.token.empty()) return std::move(found.token);
    if (found.exists && ::unlink(path.c_str()) != 0 && errno != ENOENT)
      return platform::ErrnoError("replacing " + path, errno);
    WEIR_TRY(std::string token, NewToken());
    WEIR_TRY(const bool made, MakeTokenFile(path, token));
    if (made) return token;
  }
  return Fail(Errc::kBusy, fmt::format("other processes keep replacing {}", path));
}

}  // namespace weir::dashboard
