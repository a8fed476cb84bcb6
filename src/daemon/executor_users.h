// SPDX-License-Identifier: Apache-2.0
// The users that executors run as. Under a daemon that is root, the executor of each vGPU has a user of its own: a
// number that no account has, with no right to the files and processes of others. A kernel that takes over an executor
// can then do what its own device allows, and nothing to its owner, to other tenants or to the node.
//
//   RUN_DIR/homes/NAME       belongs to the user of the vGPU NAME; drivers cache compiled kernels there
//   RUN_DIR/homes/.of-UID    of the ephemeral vGPUs of the account UID, which thus keep the compiled kernels
//   RUN_DIR/homes/.left-N    of a vGPU that was removed, until its processes have ended and its files are gone; also of
//                            one that could not be restored, while another vGPU of its name is made
//
// Where the daemon may make control groups of the kernel, the processes of each user are in a group with a limit of the
// machine's memory and of processes. It is named by the number of the user, and goes with it.
//
// A folder's owner is the record of its user, so a restarted daemon gives a vGPU the same user. A number is used again
// only after the folder is gone, and as late as possible.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/user_range.h"
#include "platform/control_groups.h"
#include "platform/spawn.h"

namespace weir::daemon {

/// How to start a vGPU's executor.
struct ExecutorUser {
  std::optional<platform::RunAs> as{};          // empty: the daemon's user
  unsigned processes_max = 0;                   // 0: no limit
  std::string group{};                          // its group with limits; empty: none
  std::vector<std::string> group_entries{};     // of `group`, see SpawnSpec::groups
  std::optional<platform::FileRights> files{};  // without the driver's, which executor_files.h has; absent: no rule
  bool own_namespaces = false;                  // SpawnSpec::own_namespaces
  std::vector<std::string> environment{};       // NAME=VALUE
  std::vector<uid_t> portals{};                 // users of portals that the executor serves
};

/// The user of a portal.
struct PortalUser {
  uid_t uid = 0;
  std::string vgpu{};  // the only vGPU that it serves; empty: all
};

/// Whether executors, portals and relays get users of their own, and which.
struct OwnUsers {
  /// The last numbers of the range are those of portals and relays.
  static constexpr uid_t kForServices = 1'024, kForExecutors = UserRange::kCount - kForServices;

  std::string why_not = "not asked for";  // why they get none; empty: they get them
  uid_t first = 0;                        // of UserRange::kCount numbers
  std::vector<PortalUser> portals{};
  /// Limits of the machine's memory for the processes of each user; absent: they have none.
  std::optional<platform::ControlGroups> groups{};
  std::string why_no_groups = "not asked for";
  std::uint64_t memory_bytes = 0;  // of each group
  /// Why executors get no namespaces of their own; empty: they get them.
  std::string why_no_namespaces = "not asked for";

  /// The user of the service with this number, below kForServices; 0: services get no users of their own.
  [[nodiscard]] uid_t OfService(uid_t number) const { return why_not.empty() ? first + kForExecutors + number : 0; }
};

class ExecutorUsers {
 public:
  /// Limit of the processes and threads of the user of an account's ephemeral vGPUs, which are many.
  static constexpr unsigned kEphemeralProcessesMax = 32'768;

  /// Without users of their own, executors run as the owner of their vGPU, or as the daemon's user if that is not root.
  ExecutorUsers(boost::asio::io_context& loop, std::string run_dir, OwnUsers own)
      : loop_(loop), run_dir_(std::move(run_dir)), homes_(run_dir_ + "/homes"), own_(std::move(own)) {}

  [[nodiscard]] bool HaveOwn() const { return own_.why_not.empty(); }
  [[nodiscard]] const OwnUsers& own() const { return own_; }
  /// The parts of the isolation that are missing here, in words.
  [[nodiscard]] std::vector<std::string> Missing() const;
  /// Whose users executors have: "own", "owners" or "daemon".
  [[nodiscard]] const char* Whose() const;

  /// The users of all portals.
  [[nodiscard]] std::vector<uid_t> Portals() const;
  /// How many processes of the group the kernel has killed because they used more than its limit of memory.
  [[nodiscard]] std::uint64_t KilledForMemory(const std::string& group) const;
  /// The home of the user of a vGPU that is not ephemeral; empty: executors have no users of their own.
  [[nodiscard]] std::string HomeOf(const std::string& vgpu) const { return HaveOwn() ? homes_ + "/" + vgpu : ""; }
  /// kIo: the user's home can't be made. kResourceExhausted: all numbers are in use.
  Result<ExecutorUser> Of(const std::string& vgpu, uid_t owner, bool ephemeral);
  /// Ends all processes of the vGPU's user and removes its files.
  void Forget(const std::string& vgpu);

  /// The home of a vGPU whose name another vGPU takes.
  struct Aside {
    std::string folder{};  // where the files are now; empty: there were none
    uid_t uid = 0;         // its user
  };
  /// Moves the vGPU's home away, so that a new vGPU of this name gets another user. Its processes go on.
  [[nodiscard]] Result<Aside> MoveAside(const std::string& vgpu);
  /// Undoes MoveAside. A home that was made under the name meanwhile is forgotten.
  void PutBack(const Aside& aside, const std::string& vgpu);
  /// As Forget, for a home that was moved away.
  void ForgetAside(const Aside& aside);

  /// Removes control groups of users that no vGPU has any more, and that of all groups if none is left.
  void RemoveUnusedGroups() const;
  /// As Forget, for each vGPU that is not in `vgpus`; they were removed while no daemon ran.
  void KeepOnly(const std::set<std::string>& vgpus);

 private:
  [[nodiscard]] bool IsOwn(uid_t uid) const { return uid >= own_.first && uid - own_.first < OwnUsers::kForExecutors; }
  [[nodiscard]] std::vector<uid_t> PortalsFor(const std::string& vgpu) const;
  Result<uid_t> OwnUser(const std::string& home);
  Result<uid_t> NextNumber();
  /// Renames a home. Returns its new path; empty: it can't be renamed.
  std::string Rename(const std::string& home);
  void SetAside(const std::string& home, uid_t uid);
  void Clear(const std::string& left, uid_t uid);
  /// A group stays while a process of it is ending, so that this tries it again for a while.
  void RemoveUnusedGroupsSoon(int tries);

  boost::asio::io_context& loop_;
  const std::string run_dir_, homes_;
  const OwnUsers own_;
  uid_t next_ = 0;     // the number to try first; 0: not known yet
  unsigned left_ = 0;  // folders that were renamed so far
  boost::asio::steady_timer removal_{loop_};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expired: a pending handler must not use this object
};

/// The parts of the isolation of executors that are missing with `own`, in words.
std::vector<std::string> MissingIsolation(const OwnUsers& own);

/// Why executors can't have users of their own here, in words; empty: they can. `paths`: what each of these users must
/// reach: the run folder, the executor and the driver.
std::string WhyNoOwnUsers(const std::vector<std::string>& paths);

/// The groups without which a user can't open the GPUs' device files below `dev`: those of files that a group may use
/// and others may not.
std::vector<gid_t> GroupsOfGpus(const std::string& dev = "/dev");

}  // namespace weir::daemon
