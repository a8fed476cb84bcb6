// SPDX-License-Identifier: Apache-2.0
// Locks for the folders that only one daemon may use: the sockets' and the state's. The kernel releases a lock when the
// process ends, also after a crash.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "platform/fd.h"

namespace weir::daemon {

/// Locks FOLDER/lock, which holds this process's pid for messages. kBusy: another process holds the lock. The error is
/// built from `who`, which describes that process ("a node daemon (process 12) serves"), and `advice`.
Result<platform::Fd> LockFolder(const std::string& folder, const std::string& who, const std::string& advice);

/// Locks the run folder. If a private daemon without vGPUs holds it (see `weir run`), that daemon is ended first,
/// unless the caller is private too.
Result<platform::Fd> LockRunFolder(const std::string& run_dir, const std::string& control, bool is_private);

/// The file RUN_DIR/serving. It exists while a daemon that is not private uses the run folder, and after such a daemon
/// has crashed. `weir run` then waits for that daemon to return instead of starting a private one.
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
