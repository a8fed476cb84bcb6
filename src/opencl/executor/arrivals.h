// SPDX-License-Identifier: Apache-2.0
// What reads of a distant client have put into the arena: told before anything that could tell it that they have ended.
// Of a command that has ended, all that it waited for has ended too and says so when asked, whether or not its callback
// has been called; so whoever tells of an end first asks every read that is still expected.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "opencl/channel/cl.h"
#include "opencl/executor/replies.h"

namespace weir::opencl {

class Arrivals {
 public:
  Arrivals(const cl_icd_dispatch& cl, std::shared_ptr<Replies> replies) : cl_(cl), replies_(std::move(replies)) {}
  ~Arrivals() { Forget(); }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  /// When `read` has ended, this is told. `queue`: null where its commands may overtake one another.
  void Expect(cl_command_queue queue, cl_event read, const proto::cl::Arrived& what);

  /// Sends `message`, behind what has arrived by now.
  template <typename M>
  void Tell(const M& message) {
    // Held over both: what another thread has found to have arrived has been told of when this one's turn comes.
    const std::lock_guard lock(mutex_);
    TellArrived();
    replies_->Send(message);
  }
  /// Nobody is told any more.
  void Forget();

 private:
  struct Read {
    cl_event event;
    proto::cl::Arrived what;
  };
  void TellArrived();

  const cl_icd_dispatch& cl_;
  const std::shared_ptr<Replies> replies_;
  std::mutex mutex_;
  std::unordered_map<cl_command_queue, std::deque<Read>> expected_;  // in the order in which they were enqueued
};

}  // namespace weir::opencl
