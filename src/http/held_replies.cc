// SPDX-License-Identifier: Apache-2.0
#include "http/held_replies.h"

#include <algorithm>

namespace weir::http {

void HeldReplies::Hold(std::function<bool()> due, std::function<Reply()> reply, Respond respond, Duration at_most,
                       const WhenGone& when_gone) {
  if (at_most <= Duration{0} || due()) return respond(reply());
  const std::uint64_t number = ++last_number_;
  held_.push_back({std::move(due), std::move(reply), std::move(respond), Clock::now() + at_most, number});
  if (when_gone)
    when_gone([this, alive = std::weak_ptr(alive_), number] {
      if (!alive.expired()) Drop(number);
    });
  ArmTimer();
}

void HeldReplies::Drop(std::uint64_t number) {
  const auto at = std::ranges::find(held_, number, &Held::number);
  if (at == held_.end()) return;
  std::list<Held> dropped;  // destroyed last, because that may call other code of the owner
  dropped.splice(dropped.end(), held_, at);
  ArmTimer();
}

void HeldReplies::SendDue() {
  const Clock::time_point now = Clock::now();
  std::list<Held> due;
  for (auto at = held_.begin(); at != held_.end();) {
    const auto next = std::next(at);
    if (now >= at->at_the_latest || at->due()) due.splice(due.end(), held_, at);
    at = next;
  }
  for (const Held& held : due) held.respond(held.reply());
  ArmTimer();
}

void HeldReplies::SendAll(const Reply& reply) {
  std::list<Held> all;
  all.swap(held_);
  for (const Held& held : all) held.respond(reply);
}

void HeldReplies::ArmTimer() {
  const auto first = std::ranges::min_element(held_, {}, &Held::at_the_latest);
  if (first == held_.end()) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(first->at_the_latest);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
    if (!error && !alive.expired()) SendDue();
  });
}

}  // namespace weir::http
