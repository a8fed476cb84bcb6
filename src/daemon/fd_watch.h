// SPDX-License-Identifier: Apache-2.0
// Calls back whenever a descriptor becomes readable. The descriptor belongs to the caller. Destroying the watch ends
// the callbacks.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "base/units.h"

namespace weir::daemon {

class FdWatch {
 public:
  FdWatch(boost::asio::io_context& loop, int fd, std::function<void()> readable)
      : descriptor_(loop, fd), timer_(loop), readable_(std::make_shared<std::function<void()>>(std::move(readable))) {
    Arm();
  }
  ~FdWatch() {
    if (descriptor_.is_open()) descriptor_.release();  // the descriptor belongs to the caller
  }
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  /// For use within the callback: suppresses further callbacks for this long although the descriptor stays readable.
  void Pause(Duration pause) { pause_ = pause; }

 private:
  void Again() {
    if (pause_ == Duration{0}) return Arm();
    timer_.expires_after(std::exchange(pause_, Duration{0}));
    timer_.async_wait([this, weak = std::weak_ptr(readable_)](const boost::system::error_code& error) {
      if (!error && weak.lock()) Arm();
    });
  }
  void Arm() {
    // The handler holds its function: the watch itself may be destroyed from within it.
    descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [this, weak = std::weak_ptr(readable_)](const boost::system::error_code& error) {
                             const auto readable = weak.lock();
                             if (error || !readable) return;
                             (*readable)();
                             if (readable.use_count() > 1) Again();
                           });
  }

  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer timer_;
  Duration pause_{};
  std::shared_ptr<std::function<void()>> readable_;
};

}  // namespace weir::daemon
