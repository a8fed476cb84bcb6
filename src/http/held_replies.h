// SPDX-License-Identifier: Apache-2.0
// Long polling: replies that are held until they are due or until a time limit has passed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "base/units.h"
#include "http/message.h"
#include "http/server.h"

namespace weir::http {

/// Belongs to the loop's thread. A reply that is still held when this object is destroyed is never sent; its server
/// answers with status 500.
class HeldReplies {
 public:
  explicit HeldReplies(boost::asio::io_context& loop) : timer_(loop) {}
  HeldReplies(const HeldReplies&) = delete;
  HeldReplies& operator=(const HeldReplies&) = delete;

  /// Sends `reply()` at once if `due()` is true. Otherwise the first SendDue for which it is true sends the reply, or a
  /// timer after `at_most`. With the request's `when_gone`, a client that hangs up meanwhile ends the hold: `reply` is
  /// not called, and the connection's place is free. Leave it out if `reply` has to be called.
  void Hold(std::function<bool()> due, std::function<Reply()> reply, Respond respond, Duration at_most,
            const WhenGone& when_gone = {});
  /// Sends the replies that are due. The owner calls it after each change.
  void SendDue();
  /// Sends this reply in place of all held replies, which the owner can no longer give.
  void SendAll(const Reply& reply);
  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Held {
    std::function<bool()> due;
    std::function<Reply()> reply;
    Respond respond;
    Clock::time_point at_the_latest;
    std::uint64_t number = 0;
  };
  void Drop(std::uint64_t number);
  void ArmTimer();

  std::list<Held> held_;
  std::uint64_t last_number_ = 0;
  boost::asio::steady_timer timer_;
  // The handler of a timer that has expired runs even if the timer is destroyed before. Clients may go later, too.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weir::http
