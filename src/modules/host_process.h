// SPDX-License-Identifier: Apache-2.0
// A weir-module-host as weir-modules sees it: a process and a socket. What it sends is not trusted.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "modules/module_frames.h"
#include "platform/fd.h"
#include "platform/spawn.h"

namespace weir::modules {

class HostProcess {
 public:
  /// Callbacks must not destroy the HostProcess that calls them. `ended` is called once, after all others.
  struct Events {
    std::function<void(HostFrame, std::vector<platform::Fd>)> frame;
    std::function<void(std::string how)> ended;  // "killed by signal 9"
  };
  enum class Files {
    kNone,         // it writes no file (platform/confinement.h)
    kOfItsDriver,  // it runs a driver itself, which keeps compiled kernels
  };
  /// How a host runs. Without a user it runs as this process's.
  struct Rights {
    Files files = Files::kNone;
    std::optional<platform::RunAs> as{};
    unsigned processes_max = 0;         // of the user, with threads; 0: no limit of its own
    std::vector<std::string> groups{};  // SpawnSpec::groups
    bool own_namespaces = false;        // SpawnSpec::own_namespaces
  };
  /// `argv` is the command line without `--fd`.
  static Result<std::unique_ptr<HostProcess>> Start(boost::asio::io_context& loop, std::vector<std::string> argv,
                                                    Rights rights, Events events);
  /// Kills the process; `ended` is not called.
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  /// `files`: what the order's packet carries. Kills the process if it does not read.
  void Send(const OrderFrame& order, const std::vector<platform::Fd>& files = {});
  /// Kills the process; `ended` follows.
  void Kill();

 private:
  HostProcess(boost::asio::io_context& loop, Events events);
  void WatchSocket();
  void WatchEnd();
  /// Handles packets received so far. False: the host sent a malformed frame or closed the socket.
  bool Drain(int frames_max);

  Events events_;
  pid_t pid_ = 0;
  platform::Fd socket_, process_;
  boost::asio::posix::stream_descriptor socket_watch_, process_watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // false: a pending handler must not use this object
};

}  // namespace weir::modules
