// SPDX-License-Identifier: Apache-2.0
// A set of threads, one for each connection. The destructor waits for all of them.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <thread>

namespace weir::net {

class Crew {
 public:
  ~Crew() {
    for (Member& member : members_) member.thread.join();
  }
  void Start(std::function<void()> work) {
    Member& member = members_.emplace_back();
    member.thread = std::thread([&member, work = std::move(work)] {
      work();
      member.ended.store(true, std::memory_order_release);
    });
  }
  /// Joins the threads that have ended. Returns the number that still run.
  std::size_t Reap() {
    for (auto member = members_.begin(); member != members_.end();) {
      if (member->ended.load(std::memory_order_acquire)) {
        member->thread.join();
        member = members_.erase(member);
      } else {
        ++member;
      }
    }
    return members_.size();
  }

 private:
  struct Member {
    std::thread thread;
    std::atomic<bool> ended{false};
  };
  std::list<Member> members_;
};

}  // namespace weir::net
