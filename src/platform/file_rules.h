// SPDX-License-Identifier: Apache-2.0
// Restricts which files a process and its children may use (Landlock), whatever their owner and mode allow, and whether
// they may open TCP connections. Files that are open already can still be used. Nothing here allocates, so that a
// forked child may use it.
#pragma once

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace weir::platform {

class FileRules {
 public:
  static constexpr std::uint64_t kReading =
      LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
  /// Changing files that exist.
  static constexpr std::uint64_t kChanging = LANDLOCK_ACCESS_FS_WRITE_FILE;
  /// Also making and removing files and folders, but no device files.
  static constexpr std::uint64_t kWriting = kChanging | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                            LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                            LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                            LANDLOCK_ACCESS_FS_MAKE_FIFO;

  static constexpr std::uint64_t kListing = LANDLOCK_ACCESS_FS_READ_DIR;

  /// Whether the kernel has Landlock.
  static bool Supported() { return Version() >= 1; }
  /// Whether rules also refuse connections to abstract Unix sockets of processes that have not entered them.
  static bool RefuseAbstractSockets() { return Version() >= kScopesSince; }

  /// Whether RefuseConnections has an effect.
  static bool CanRefuseConnections() { return Version() >= kNetworkSince; }
  /// From now on this process opens no TCP connection, not even with a socket that it has had before. On kernels that
  /// cannot refuse that, it does nothing. Requires no_new_privs. False, with errno: that failed.
  static bool RefuseConnections() {
    if (!CanRefuseConnections()) return true;
    const Wanted wanted{.files = 0, .net = kConnecting, .scoped = 0};
    const long rules = ::syscall(SYS_landlock_create_ruleset, &wanted, offsetof(Wanted, scoped), 0);
    if (rules < 0) return false;
    const bool entered = ::syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    ::close(static_cast<int>(rules));
    return entered;
  }

  /// Begins rules by which the accesses in `refused` are refused, except where Allow allows them. With kWriting,
  /// truncating by name, links and renames into other folders are refused as well, where the kernel can refuse them.
  explicit FileRules(std::uint64_t refused) {
    const long version = Version();
    if ((refused & kWriting) == kWriting) {
      refused |= LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
      if (version >= 2) more_ |= LANDLOCK_ACCESS_FS_REFER;
      if (version >= 3) more_ |= kTruncate;
    }
    Wanted wanted{.files = refused | more_, .net = 0, .scoped = version >= kScopesSince ? kAbstractSockets : 0};
    const std::size_t size = version >= kScopesSince ? sizeof wanted : sizeof wanted.files;
    rules_ = ::syscall(SYS_landlock_create_ruleset, &wanted, size, 0);
  }
  ~FileRules() {
    if (rules_ >= 0) ::close(static_cast<int>(rules_));
  }
  FileRules(const FileRules&) = delete;
  FileRules& operator=(const FileRules&) = delete;

  /// Allows `access`, all of which must be in `refused`, to `path`: a file, or a folder and what is below it. A path
  /// that does not exist is skipped. For a file, the accesses that only folders have are left out.
  bool Allow(const char* path, std::uint64_t access) {
    const int at = ::open(path, O_PATH | O_CLOEXEC);
    if (at < 0) return true;
    struct stat status {};
    const bool is_folder = ::fstat(at, &status) == 0 && S_ISDIR(status.st_mode);
    landlock_path_beneath_attr rule{};
    rule.parent_fd = at;
    rule.allowed_access = access;
    if ((access & kWriting) == kWriting)
      rule.allowed_access |= more_;
    else if ((access & kChanging) != 0)
      rule.allowed_access |= more_ & kTruncate;
    if (!is_folder)
      rule.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE | kChanging | kTruncate;
    const bool added = ::syscall(SYS_landlock_add_rule, rules_, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    ::close(at);
    return added;
  }
  /// Applies the rules to this process for good. Requires no_new_privs. False, with errno: they are not applied.
  bool Enter() { return rules_ >= 0 && ::syscall(SYS_landlock_restrict_self, rules_, 0) == 0; }

 private:
  // Names that older headers lack.
  static constexpr std::uint64_t kTruncate = 1ULL << 14;        // version 3
  static constexpr std::uint64_t kAbstractSockets = 1ULL << 0;  // version 6: connecting to those outside is refused
  static constexpr long kScopesSince = 6;
  static constexpr std::uint64_t kConnecting = 1ULL << 1;  // version 4: TCP
  static constexpr long kNetworkSince = 4;
  struct Wanted {
    std::uint64_t files, net, scoped;
  };

  static long Version() { return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION); }

  std::uint64_t more_ = 0;
  long rules_ = -1;
};

}  // namespace weir::platform
