// SPDX-License-Identifier: Apache-2.0
#include "daemon/executor_users.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "daemon/executor_home.h"
#include "daemon/reaper.h"
#include "platform/file_rules.h"
#include "platform/files.h"
#include "platform/process.h"

namespace weir::daemon {
namespace {

/// Until a process that was killed has ended: a large one gives back its memory first.
constexpr Duration kBetweenRemovals = milliseconds(200);
constexpr int kRemovalTries = 50;

struct Home {
  std::string name;
  uid_t uid = 0;
};

/// The folders below `homes`.
std::vector<Home> HomesIn(const std::string& homes) {
  std::vector<Home> found;
  DIR* folder = ::opendir(homes.c_str());
  if (folder == nullptr) return found;
  while (const dirent* entry = ::readdir(folder)) {
    struct stat status {};
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::fstatat(::dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode))
      found.push_back({name, status.st_uid});
  }
  ::closedir(folder);
  return found;
}

/// The name of a capability that changing users needs and that this process lacks; null: none.
const char* MissingCapability() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, has) != 0) return "capget";
  constexpr std::pair<unsigned, const char*> kNeeded[] = {
      {CAP_SETUID, "CAP_SETUID"}, {CAP_SETGID, "CAP_SETGID"}, {CAP_CHOWN, "CAP_CHOWN"}, {CAP_KILL, "CAP_KILL"}};
  for (const auto& [number, name] : kNeeded)
    if ((has[0].effective & (1U << number)) == 0) return name;
  return nullptr;
}

/// Whether this user namespace has all numbers, which is not so in a container with a few users of its own.
bool NumbersAreMapped() {
  constexpr std::uint64_t kFirst = UserRange::kFirst,
                          kEnd = kFirst + std::uint64_t{UserRange::kRangesMax} * UserRange::kCount;
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  while (map >> inside >> outside >> count)
    if (inside <= kFirst && inside + count >= kEnd) return true;
  return false;
}

/// The first part of the path to which a user without further rights has no access: a folder that is not open to every
/// user, or a file that is not readable for every user. Empty: the whole path is accessible.
std::string ClosedToOthers(const std::string& path) {
  std::filesystem::path at;
  for (const auto& part : std::filesystem::absolute(path)) {
    at /= part;
    struct stat status {};
    if (::stat(at.c_str(), &status) != 0) return {};  // what needs the file says that it is missing
    const mode_t needed = S_ISDIR(status.st_mode) ? S_IXOTH : S_IROTH;
    if ((status.st_mode & needed) == 0) return at;
  }
  return {};
}

/// Removes the groups of users that have no folder below `homes`. A group in which a process is still ending stays
/// until the next call.
bool RemoveUnused(const platform::ControlGroups& groups, const std::string& homes) {
  std::set<std::string> used;
  for (const Home& home : HomesIn(homes)) used.insert(std::to_string(home.uid));
  return groups.RemoveUnused(used);
}

}  // namespace

std::vector<std::string> ExecutorUsers::Missing() const { return MissingIsolation(own_); }

const char* ExecutorUsers::Whose() const {
  if (HaveOwn()) return "own";
  return ::geteuid() == 0 ? "owners" : "daemon";
}

Result<ExecutorUser> ExecutorUsers::Of(const std::string& vgpu, uid_t owner, bool ephemeral) {
  if (!HaveOwn()) {
    if (::geteuid() != 0 || owner == 0) return ExecutorUser{};
    WEIR_TRY(const platform::RunAs as, platform::AccountOf(owner));
    WEIR_TRY(std::vector<std::string> environment, HomeEnvironment(owner, run_dir_, vgpu));
    return ExecutorUser{.as = as, .environment = std::move(environment)};
  }
  const std::string home = HomeOf(ephemeral ? ".of-" + std::to_string(owner) : vgpu);
  WEIR_TRY(const uid_t uid, OwnUser(home));
  const unsigned processes_max = ephemeral ? kEphemeralProcessesMax : platform::kTenantProcessesMax;
  std::string group;
  std::vector<std::string> entries;
  if (own_.groups) {
    group = std::to_string(uid);
    WEIR_TRY_STATUS(own_.groups->Set(group, {.memory_bytes = own_.memory_bytes, .processes = processes_max}));
    entries = own_.groups->EntriesOf(group);
  }
  return ExecutorUser{.as = platform::RunAs{.uid = uid, .gid = uid, .groups = GroupsOfGpus()},
                      .processes_max = processes_max,
                      .group = std::move(group),
                      .group_entries = std::move(entries),
                      .files = platform::FileRights{.writes_below = home},
                      .own_namespaces = own_.why_no_namespaces.empty(),
                      .environment = {"HOME=" + home, "XDG_CACHE_HOME=" + home + "/.cache", "TMPDIR=" + home},
                      .portals = PortalsFor(vgpu)};
}

std::uint64_t ExecutorUsers::KilledForMemory(const std::string& group) const {
  return own_.groups && !group.empty() ? own_.groups->KilledForMemory(group) : 0;
}

std::vector<uid_t> ExecutorUsers::Portals() const {
  std::vector<uid_t> users;
  for (const PortalUser& portal : own_.portals) users.push_back(portal.uid);
  return users;
}

std::vector<uid_t> ExecutorUsers::PortalsFor(const std::string& vgpu) const {
  std::vector<uid_t> users;
  for (const PortalUser& portal : own_.portals)
    if (portal.vgpu.empty() || portal.vgpu == vgpu) users.push_back(portal.uid);
  return users;
}

Result<uid_t> ExecutorUsers::OwnUser(const std::string& home) {
  struct stat status {};
  if (::lstat(home.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    if (IsOwn(status.st_uid)) return status.st_uid;
    // Of another range, which the run folder had before the machine's list of ranges was lost, as by a restart.
    if (status.st_uid >= UserRange::kFirst) SetAside(home, status.st_uid);
  }
  WEIR_TRY(const uid_t uid, NextNumber());
  WEIR_TRY_STATUS(HomeFolder(uid, uid, "", home));
  return uid;
}

Result<uid_t> ExecutorUsers::NextNumber() {
  std::set<uid_t> used;
  for (const Home& home : HomesIn(homes_))
    if (IsOwn(home.uid)) used.insert(home.uid);
  if (next_ == 0) next_ = used.empty() ? own_.first : *used.rbegin() + 1;
  for (uid_t i = 0; i < OwnUsers::kForExecutors; ++i) {
    const uid_t uid = own_.first + (next_ - own_.first + i) % OwnUsers::kForExecutors;
    if (used.contains(uid)) continue;
    next_ = uid + 1;
    return uid;
  }
  return Fail(Errc::kResourceExhausted, "all " + std::to_string(OwnUsers::kForExecutors) +
                                            " users of executors are in use, by the folders in " + homes_);
}

void ExecutorUsers::Forget(const std::string& vgpu) {
  const std::string home = homes_ + "/" + vgpu;
  struct stat status {};
  if (HaveOwn() && ::lstat(home.c_str(), &status) == 0 && IsOwn(status.st_uid)) SetAside(home, status.st_uid);
}

Result<ExecutorUsers::Aside> ExecutorUsers::MoveAside(const std::string& vgpu) {
  const std::string home = homes_ + "/" + vgpu;
  struct stat status {};
  if (!HaveOwn() || ::lstat(home.c_str(), &status) != 0 || !IsOwn(status.st_uid)) return Aside{};
  Aside aside{.folder = Rename(home), .uid = status.st_uid};
  if (aside.folder.empty()) return Fail(Errc::kUnavailable, "the files of the earlier '" + vgpu + "' cannot be moved");
  return aside;
}

void ExecutorUsers::PutBack(const Aside& aside, const std::string& vgpu) {
  if (aside.folder.empty()) return;
  Forget(vgpu);
  const std::string home = homes_ + "/" + vgpu;
  if (::rename(aside.folder.c_str(), home.c_str()) != 0)
    std::fprintf(stderr, "weir: the files of '%s' stay at %s: renaming: %s\n", vgpu.c_str(), aside.folder.c_str(),
                 std::strerror(errno));
}

void ExecutorUsers::ForgetAside(const Aside& aside) {
  if (!aside.folder.empty()) Clear(aside.folder, aside.uid);
}

std::string ExecutorUsers::Rename(const std::string& home) {
  std::string left;
  do left = homes_ + "/.left-" + std::to_string(left_++);
  while (::access(left.c_str(), F_OK) == 0);
  if (::rename(home.c_str(), left.c_str()) == 0) return left;
  std::fprintf(stderr, "weir: the files of a vGPU stay: renaming %s: %s\n", home.c_str(), std::strerror(errno));
  return {};
}

void ExecutorUsers::SetAside(const std::string& home, uid_t uid) {
  if (const std::string left = Rename(home); !left.empty()) Clear(left, uid);
}

void ExecutorUsers::KeepOnly(const std::set<std::string>& vgpus) {
  if (!HaveOwn()) return;
  for (const Home& home : HomesIn(homes_)) {
    if (!IsOwn(home.uid) || home.name.starts_with(".of-")) continue;
    if (home.name.starts_with(".left-"))
      Clear(homes_ + "/" + home.name, home.uid);
    else if (!vgpus.contains(home.name))
      Forget(home.name);
  }
  if (own_.groups) RemoveUnused(*own_.groups, homes_);
}

void ExecutorUsers::RemoveUnusedGroups() const {
  if (!own_.groups) return;
  RemoveUnused(*own_.groups, homes_);
  own_.groups->RemoveIfEmpty();
}

// The files are removed by a process of that user: the daemon has no right to a folder that is closed to others, and a
// link in it leads to nothing that the user may not remove anyway. The folder itself lies in one of root's.
void ExecutorUsers::Clear(const std::string& left, uid_t uid) {
  const auto pid = platform::Spawn({.argv = {"/bin/rm", "-rf", "--one-file-system", "--", left},
                                    .silent = true,
                                    .as = platform::RunAs{.uid = uid, .gid = uid},
                                    .confined = true,
                                    .ends_its_user = IsOwn(uid)});
  auto process = pid ? platform::OpenPidFd(*pid) : Result<platform::Fd>(pid.error());
  if (!process) {
    std::fprintf(stderr, "weir: %s stays until the next start: %s\n", left.c_str(), process.error().message.c_str());
    return;
  }
  Reaper::Start(loop_, *pid, std::move(*process), [this, left, alive = std::weak_ptr<bool>(alive_)] {
    ::rmdir(left.c_str());
    if (!alive.expired()) RemoveUnusedGroupsSoon(kRemovalTries);
  });
}

void ExecutorUsers::RemoveUnusedGroupsSoon(int tries) {
  if (!own_.groups || RemoveUnused(*own_.groups, homes_) || tries <= 1) return;
  removal_.expires_after(kBetweenRemovals);
  removal_.async_wait([this, tries](const boost::system::error_code& error) {
    if (!error) RemoveUnusedGroupsSoon(tries - 1);
  });
}

std::string WhyNoOwnUsers(const std::vector<std::string>& paths) {
  if (::geteuid() != 0) return "the daemon is not root";
  if (const char* missing = MissingCapability()) return std::string("the daemon has no ") + missing;
  if (!NumbersAreMapped()) return "the daemon's user namespace has too few users";
  for (const std::string& path : paths)
    if (const std::string closed = path.starts_with('/') ? ClosedToOthers(path) : std::string(); !closed.empty())
      return closed + " is closed to other users";
  return {};
}

std::vector<std::string> MissingIsolation(const OwnUsers& own) {
  if (!own.why_not.empty()) return {"executors have no users of their own: " + own.why_not};
  std::vector<std::string> missing;
  if (!platform::FileRules::Supported())
    missing.emplace_back(
        "executors may use files that are open to every user, and all GPUs' device files that are open to them: this "
        "kernel has no Landlock");
  if (!own.why_no_namespaces.empty() && !platform::FileRules::RefuseAbstractSockets())
    missing.push_back(
        "executors may connect to abstract Unix sockets: this kernel's Landlock is older than 6.12's, and "
        "namespaces can't be made: " +
        own.why_no_namespaces);
  if (!own.groups) missing.push_back("executors have no limit of the machine's memory: " + own.why_no_groups);
  return missing;
}

std::vector<gid_t> GroupsOfGpus(const std::string& dev) {
  std::set<gid_t> groups;
  const auto look = [&groups](const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || status.st_gid == 0) return;
    if ((status.st_mode & S_IRWXG) > (status.st_mode & S_IRWXO) << 3) groups.insert(status.st_gid);
  };
  look(dev + "/kfd");
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(dev + "/dri", none))
    if (entry.path().filename().string().starts_with("renderD")) look(entry.path());
  for (const auto& entry : std::filesystem::directory_iterator(dev, none))
    if (entry.path().filename().string().starts_with("nvidia")) look(entry.path());
  return {groups.begin(), groups.end()};
}

}  // namespace weir::daemon
