// SPDX-License-Identifier: Apache-2.0
// A program that is to run as long as the daemon does: started with it, and again when it has ended. When the daemon
// goes it is left to itself.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "daemon/fd_watch.h"
#include "platform/fd.h"

namespace weir::daemon {

class KeptProcess {
 public:
  /// `name`: for people. The error is what keeps it from being executed; what else keeps it from its work it says
  /// itself.
  static Result<std::unique_ptr<KeptProcess>> Start(boost::asio::io_context& loop, std::string name,
                                                    std::vector<std::string> argv);
  /// It is told to end, and not started again. The object may go then.
  void End();
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Why it does not run, or ends again and again; empty: there is nothing wrong.
  [[nodiscard]] std::string problem() const;
  KeptProcess(const KeptProcess&) = delete;
  KeptProcess& operator=(const KeptProcess&) = delete;

 private:
  KeptProcess(boost::asio::io_context& loop, std::string name, std::vector<std::string> argv)
      : loop_(loop), timer_(loop), name_(std::move(name)), argv_(std::move(argv)) {}
  Status Spawn();
  void OnEnd();
  void Failed(std::string problem);

  boost::asio::io_context& loop_;
  boost::asio::steady_timer timer_;
  const std::string name_;
  const std::vector<std::string> argv_;
  pid_t pid_ = 0;
  Instant started_{};
  Duration wait_{};      // before the next start; zero: the last start went well
  std::string problem_;  // of the last end or start
  platform::Fd process_;
  std::unique_ptr<FdWatch> watch_;
};

}  // namespace weir::daemon
