// SPDX-License-Identifier: Apache-2.0
#include "daemon/user_range.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <filesystem>
#include <map>
#include <set>

#include "platform/files.h"
#include "platform/unix_socket.h"

namespace weir::daemon {
namespace {

/// The run folder of each range that has a file.
std::map<unsigned, std::string> OwnersIn(const std::string& folder) {
  std::map<unsigned, std::string> owners;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    unsigned number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec != std::errc{}) continue;
    if (auto text = platform::ReadFile(entry.path(), PATH_MAX)) owners[number] = std::move(*text);
  }
  return owners;
}

unsigned FirstFree(const std::map<unsigned, std::string>& owners, const std::set<unsigned>& in_use) {
  for (unsigned i = 0; i < UserRange::kRangesMax; ++i) {
    const auto owner = owners.find(i);
    const bool gone = owner == owners.end() || ::access(owner->second.c_str(), F_OK) != 0;
    if (gone && !in_use.contains(i)) return i;
  }
  return UserRange::kRangesMax;
}

}  // namespace

std::set<unsigned> UserRange::InUse() {
  std::set<unsigned> used;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0 || status.st_uid < kFirst) continue;
    used.insert((status.st_uid - kFirst) / kCount);
  }
  return used;
}

Result<UserRange> UserRange::Take(const std::string& run_dir, const std::string& folder,
                                  const std::set<unsigned>& in_use) {
  WEIR_TRY_STATUS(platform::MakeFolder(folder));
  // A process that can open the folder can lock it, and then no daemon can choose a range. systemd makes the folder
  // with mode 0755.
  if (::chmod(folder.c_str(), 0700) != 0) return platform::ErrnoError("closing " + folder, errno);
  // One daemon at a time chooses a range.
  const platform::Fd all(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!all || ::flock(all.get(), LOCK_EX) != 0) return platform::ErrnoError("locking " + folder, errno);
  std::error_code missing;
  const std::string mine = std::filesystem::canonical(run_dir, missing);
  if (missing) return Fail(Errc::kIo, "finding " + run_dir + ": " + missing.message());
  const std::map<unsigned, std::string> owners = OwnersIn(folder);
  const auto ours = std::ranges::find(owners, mine, [](const auto& range) { return range.second; });
  const unsigned chosen = ours != owners.end() ? ours->first : FirstFree(owners, in_use);
  if (chosen == kRangesMax)
    return Fail(Errc::kResourceExhausted,
                "all " + std::to_string(kRangesMax) + " ranges of users in " + folder + " belong to other run folders");
  const std::string path = folder + "/" + std::to_string(chosen);
  platform::Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock) return platform::ErrnoError("opening " + path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(Errc::kBusy, "another process has locked " + path + ", the users of " + mine);
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size()))
    return platform::ErrnoError("writing " + path, errno);
  return UserRange(kFirst + chosen * kCount, std::move(lock));
}

}  // namespace weir::daemon
