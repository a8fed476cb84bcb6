// SPDX-License-Identifier: Apache-2.0
#include "daemon/user_range.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <set>

#include "platform/files.h"
#include "platform/unix_socket.h"

namespace weir::daemon {
namespace {

/// The ranges of which some process has a user.
std::set<unsigned> RangesInUse() {
  std::set<unsigned> used;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0 || status.st_uid < UserRange::kFirst) continue;
    used.insert((status.st_uid - UserRange::kFirst) / UserRange::kCount);
  }
  return used;
}

std::string TextOf(int file) {
  char text[PATH_MAX];
  const ssize_t length = ::pread(file, text, sizeof text, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

}  // namespace

Result<UserRange> UserRange::Take(const std::string& run_dir, const std::string& folder) {
  WEIR_TRY_STATUS(platform::MakeFolder(folder));
  // One daemon at a time chooses a range.
  const platform::Fd all(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!all || ::flock(all.get(), LOCK_EX) != 0) return platform::ErrnoError("locking " + folder, errno);
  const std::string mine = std::filesystem::absolute(run_dir).lexically_normal();
  const std::set<unsigned> in_use = RangesInUse();
  unsigned chosen = kRangesMax;
  for (unsigned i = 0; i < kRangesMax; ++i) {
    const platform::Fd file(::open((folder + "/" + std::to_string(i)).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    const std::string owner = file ? TextOf(file.get()) : "";
    if (owner == mine) {
      chosen = i;
      break;
    }
    const bool gone = owner.empty() || ::access(owner.c_str(), F_OK) != 0;
    if (chosen == kRangesMax && gone && !in_use.contains(i)) chosen = i;
    if (!file && chosen != kRangesMax) break;  // files are made in order, so there are no further ones
  }
  if (chosen == kRangesMax)
    return Fail(Errc::kResourceExhausted,
                "all " + std::to_string(kRangesMax) + " ranges of users in " + folder + " belong to other run folders");
  const std::string path = folder + "/" + std::to_string(chosen);
  platform::Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!lock) return platform::ErrnoError("opening " + path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(Errc::kBusy, "another process has locked " + path + ", the users of " + mine);
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size()))
    return platform::ErrnoError("writing " + path, errno);
  return UserRange(kFirst + chosen * kCount, std::move(lock));
}

}  // namespace weir::daemon
