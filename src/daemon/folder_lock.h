// SPDX-License-Identifier: Apache-2.0
// Folders that one daemon uses alone: its sockets' and its state's. The lock ends with the process, also by a crash.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "platform/fd.h"

namespace weir::daemon {

/// Locks FOLDER/lock, which holds this process's id for messages. kBusy: another process has it. `who` tells people
/// what that process does ("a node daemon (process 12) serves"), `advice` what to do.
Result<platform::Fd> LockFolder(const std::string& folder, const std::string& who, const std::string& advice);

/// Locks the run folder. Where a private daemon without vGPUs has it (see `weir run`), that one is ended first, unless
/// the caller is private too.
Result<platform::Fd> LockRunFolder(const std::string& run_dir, const std::string& control, bool is_private);

/// The file RUN_DIR/serving: it is there while a daemon that stays has the run folder, and after a crash of that
/// daemon. `weir run` then waits for the daemon and starts no private one in its place.
class ServingMark {
 public:
  static std::string PathIn(const std::string& run_dir) { return run_dir + "/serving"; }
  static Result<ServingMark> Make(const std::string& run_dir);
  ServingMark(ServingMark&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ServingMark& operator=(ServingMark&&) = delete;
  ~ServingMark();

 private:
  explicit ServingMark(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace weir::daemon
