// SPDX-License-Identifier: Apache-2.0
// Keeps a program running as long as the daemon: starts it with the daemon and restarts it when it ends. When the
// daemon ends, the program notices that its parent has ended, and ends too.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/fd_watch.h"
#include "platform/fd.h"
#include "platform/file_requests.h"
#include "platform/process.h"
#include "platform/spawn.h"

namespace weir::daemon {

/// What a service keeps once it listens (remote/service_user.h).
struct ServiceRights {
  uid_t user = 0;                              // that it becomes; 0: it keeps the daemon's
  std::vector<platform::OfferedFile> files{};  // that the daemon opens for it
};

class SupervisedProcess {
 public:
  /// Opens a descriptor that becomes readable at the process's end; tests substitute it.
  using OpenProcess = std::function<Result<platform::Fd>(pid_t pid)>;
  /// `name` is for messages. An error means that the program can't be executed. Problems after that are logged by the
  /// program itself.
  static Result<std::unique_ptr<SupervisedProcess>> Start(boost::asio::io_context& loop, std::string name,
                                                          std::vector<std::string> argv, ServiceRights rights = {},
                                                          OpenProcess open = platform::OpenPidFd);
  /// Asks the process to end and stops restarting it. The object may then be destroyed.
  void End();
  [[nodiscard]] const std::string& name() const { return name_; }
  /// 0: it does not run.
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Why the process does not run or keeps ending; empty: no problem.
  [[nodiscard]] std::string problem() const;
  SupervisedProcess(const SupervisedProcess&) = delete;
  SupervisedProcess& operator=(const SupervisedProcess&) = delete;

 private:
  SupervisedProcess(boost::asio::io_context& loop, std::string name, std::vector<std::string> argv,
                    ServiceRights rights, OpenProcess open)
      : loop_(loop),
        timer_(loop),
        name_(std::move(name)),
        argv_(std::move(argv)),
        rights_(std::move(rights)),
        open_(std::move(open)) {}
  Result<platform::SpawnSpec> Spec(platform::Fd& theirs);
  void OnFileRequest();
  Status Spawn();
  void OnEnd();
  void Failed(std::string problem);

  boost::asio::io_context& loop_;
  boost::asio::steady_timer timer_;
  const std::string name_;
  const std::vector<std::string> argv_;
  const ServiceRights rights_;
  const OpenProcess open_;
  platform::Fd files_;  // the daemon's end of the process's requests for files
  std::unique_ptr<FdWatch> files_watch_;
  pid_t pid_ = 0;
  Instant started_{};
  Duration wait_{};      // delay before the next start; zero: the last start succeeded
  std::string problem_;  // of the last exit or failed start
  platform::Fd process_;
  std::unique_ptr<FdWatch> watch_;
};

}  // namespace weir::daemon
