// SPDX-License-Identifier: Apache-2.0
#include "daemon/state_saver.h"

#include <boost/asio/post.hpp>
#include <cstdio>

namespace weir::daemon {

StateSaver::StateSaver(boost::asio::io_context& loop, std::function<Status(const SavedNode&)> write,
                       Duration write_again_after)
    : loop_(loop), write_(std::move(write)), write_again_after_(write_again_after), thread_([this] { Run(); }) {}

StateSaver::~StateSaver() {
  alive_.reset();
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StateSaver::Save(SavedNode state) {
  ++saves_;
  {
    const std::lock_guard guard(mutex_);
    next_ = Numbered{saves_, std::move(state)};
  }
  changed_.notify_all();
}

void StateSaver::WhenSaved(std::function<void(Status)> done) {
  if (saved_ == saves_)
    boost::asio::post(loop_, [done = std::move(done)] { done(Ok()); });
  else
    waiters_.push_back({saves_, std::move(done)});
}

void StateSaver::Run() {
  std::optional<Numbered> failed;  // to be written again
  std::unique_lock guard(mutex_);
  for (;;) {
    const auto due = [this] { return next_.has_value() || ends_; };
    if (failed)
      changed_.wait_for(guard, write_again_after_, due);
    else
      changed_.wait(guard, due);
    if (ends_ && !next_) return;
    Numbered now = next_ ? std::move(*next_) : std::move(*failed);
    next_.reset();
    failed.reset();
    guard.unlock();
    const Status status = write_(now.state);
    boost::asio::post(loop_, [this, alive = std::weak_ptr(alive_), number = now.number, status] {
      if (!alive.expired()) OnWritten(number, status);
    });
    if (!status) failed = std::move(now);
    guard.lock();
  }
}

void StateSaver::OnWritten(std::uint64_t number, const Status& status) {
  if (status) {
    if (!problem_.empty()) std::fprintf(stderr, "weir: the state is saved again\n");
    problem_.clear();
    saved_ = std::max(saved_, number);
  } else if (problem_ != status.error().message) {
    problem_ = status.error().message;
    std::fprintf(stderr, "weir: %s; changes since the last save would be lost by a restart\n", problem_.c_str());
  }
  // A callback may add a waiter: only those that are due now are called.
  std::list<Waiter> due;
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const auto next = std::next(at);
    if (at->number <= number) due.splice(due.end(), waiters_, at);
    at = next;
  }
  for (const Waiter& waiter : due) waiter.done(status);
}

}  // namespace weir::daemon
