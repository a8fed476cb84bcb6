// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_home.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "platform/fd.h"
#include "platform/files.h"

namespace weir::daemon {
namespace {

bool IsFolderOf(uid_t uid, const std::string& path) {
  struct stat found {};
  return !path.empty() && ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == uid;
}

Error Cannot(const std::string& path, const char* why) {
  return Fail(Errc::kIo, "making " + path + ", the home of an executor: " + why);
}

}  // namespace

Result<std::string> HomeFolder(uid_t uid, gid_t gid, const std::string& own, const std::string& fallback) {
  if (IsFolderOf(uid, own)) return own;
  // Only this process can write to the parent folder.
  WEIR_TRY_STATUS(platform::MakeFolder(std::filesystem::path(fallback).parent_path(), 0711));
  if (::mkdir(fallback.c_str(), 0700) != 0) {
    if (errno != EEXIST) return Cannot(fallback, std::strerror(errno));
    if (IsFolderOf(uid, fallback)) return fallback;
    // A process with the same job made the folder and ended before it changed the owner.
    if (!IsFolderOf(::geteuid(), fallback)) return Cannot(fallback, "it is another user's");
  }
  const platform::Fd folder(::open(fallback.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder || ::fchown(folder.get(), uid, gid) != 0) return Cannot(fallback, std::strerror(errno));
  return fallback;
}

Result<std::vector<std::string>> HomeEnvironment(uid_t uid, const std::string& run_dir, const std::string& vgpu) {
  if (uid == ::geteuid()) return std::vector<std::string>{};
  const passwd* user = ::getpwuid(uid);
  if (user == nullptr) return Fail(Errc::kNotFound, "no user with uid " + std::to_string(uid));
  const std::string fallback = run_dir + "/home/" + vgpu + "." + std::to_string(uid);
  WEIR_TRY(const std::string home, HomeFolder(uid, user->pw_gid, user->pw_dir, fallback));
  return std::vector<std::string>{"HOME=" + home, "XDG_CACHE_HOME=" + home + "/.cache"};
}

}  // namespace weir::daemon
