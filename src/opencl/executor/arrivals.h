// SPDX-License-Identifier: Apache-2.0
// Tracks the reads of a remote client that have put data into the arena. Their arrival is reported before any message
// that could tell the client that they have ended. When a command has ended, everything it waited for has ended too and
// reports that when queried, even if its callback was not yet called. Therefore every report of an end first queries
// all expected reads.
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

  /// Reports `what` when `read` has ended. `queue`: null if its commands may be reordered.
  void Expect(cl_command_queue queue, cl_event read, const proto::cl::Arrived& what);

  /// Sends `message` after the arrivals so far.
  template <typename M>
  void Tell(const M& message) {
    // The lock covers both, so that arrivals which another thread has detected are reported before this message.
    const std::lock_guard lock(mutex_);
    TellArrived();
    replies_->Send(message);
  }
  /// Stops all reports.
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
  std::unordered_map<cl_command_queue, std::deque<Read>> expected_;  // in the order of the enqueues
};

}  // namespace weir::opencl
