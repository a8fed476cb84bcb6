// SPDX-License-Identifier: Apache-2.0
// A set of threads, one for each connection. The destructor waits for all of them.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <system_error>
#include <thread>
#include <utility>

namespace weir::net {

class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { Join(); }
  /// False: the system lets no more threads start, and `work` is dropped.
  bool Start(std::function<void()> work) {
    Member& member = members_.emplace_back();
    try {
      member.thread = std::thread([&member, work = std::move(work)] {
        work();
        member.ended.store(true, std::memory_order_release);
      });
    } catch (const std::system_error&) {
      members_.pop_back();
      return false;
    }
    return true;
  }
  /// Waits until all threads have ended.
  void Join() {
    for (Member& member : members_) member.thread.join();
    members_.clear();
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
