// SPDX-License-Identifier: Apache-2.0
// Stops a loop when its program has to end: on SIGINT or SIGTERM, or when the program's parent has ended.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "platform/service_end.h"

namespace weir::http {

class StopOnEnd {
 public:
  StopOnEnd(boost::asio::io_context& loop, platform::ServiceEnd end) : stop_(loop), parent_(loop) {
    Arm(loop, stop_, end.stop);
    Arm(loop, parent_, end.parent);
  }

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;

  static void Arm(boost::asio::io_context& loop, Descriptor& descriptor, platform::Fd& readable) {
    if (!readable) return;
    descriptor.assign(readable.Release());
    descriptor.async_wait(Descriptor::wait_read, [&loop](const boost::system::error_code& error) {
      if (!error) loop.stop();
    });
  }

  Descriptor stop_, parent_;
};

}  // namespace weir::http
