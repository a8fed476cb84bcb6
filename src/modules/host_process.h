// SPDX-License-Identifier: Apache-2.0
// A weir-module-host as weir-modules sees it: a process and a socket to it. What it sends is not trusted.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "modules/module_frames.h"
#include "platform/fd.h"

namespace weir::modules {

class HostProcess {
 public:
  /// Neither may destroy the process, which is in the midst of it; `ended` comes once, as the last.
  struct Events {
    std::function<void(HostFrame, std::vector<platform::Fd>)> frame;
    std::function<void(std::string how)> ended;  // "killed by signal 9"
  };
  /// `argv` without `--fd`.
  static Result<std::unique_ptr<HostProcess>> Start(boost::asio::io_context& loop, std::vector<std::string> argv,
                                                    Events events);
  /// Kills it without a word.
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  /// One that does not read is killed.
  void Send(const OrderFrame& order);
  /// It will have ended soon.
  void Kill();

 private:
  HostProcess(boost::asio::io_context& loop, Events events);
  void WatchSocket();
  void WatchEnd();
  /// All that has been sent by now. False: it sent what is no frame, or has closed.
  bool Drain();

  Events events_;
  pid_t pid_ = 0;
  platform::Fd socket_, process_;
  boost::asio::posix::stream_descriptor socket_watch_, process_watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // false: a handler finds it gone
};

}  // namespace weir::modules
