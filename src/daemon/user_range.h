// SPDX-License-Identifier: Apache-2.0
// The numbers of users that belong to one daemon of this machine, so that two daemons never give a user to vGPUs of
// both. `folder` has a file for each range, 0, 1, ...: it holds the path of the run folder that the range belongs to,
// and its daemon locks it.
//
//   free      no file, or the run folder that it names is gone and no process has a user of the range
//   taken     otherwise. The executors of a daemon that has ended keep their users, so a restarted daemon takes the
//             range that names its run folder.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/result.h"
#include "platform/fd.h"

namespace weir::daemon {

class UserRange {
 public:
  /// Numbers that no distribution gives to accounts, containers or services.
  static constexpr uid_t kFirst = 2'000'000'000, kCount = 65'536;
  static constexpr unsigned kRangesMax = 2'250;  // below 2^31
  static constexpr const char* kFolder = "/run/weir-users";

  /// kIo: a file can't be written. kBusy: another process has locked this run folder's range. kResourceExhausted: all
  /// ranges are taken.
  static Result<UserRange> Take(const std::string& run_dir, const std::string& folder = kFolder,
                                const std::set<unsigned>& in_use = InUse());
  /// The ranges of which some process of this machine has a user.
  static std::set<unsigned> InUse();

  [[nodiscard]] uid_t first() const { return first_; }

 private:
  UserRange(uid_t first, platform::Fd lock) : first_(first), lock_(std::move(lock)) {}
  uid_t first_;
  platform::Fd lock_;
};

}  // namespace weir::daemon
