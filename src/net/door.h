// SPDX-License-Identifier: Apache-2.0
// Limits the connections of a service, so that no single address or token can occupy all places, and that many
// addresses together can't keep others out.
//
//   Come(address) ──▶ unknown ──Name(name)──▶ named ──Admitted──▶ admitted
//        │               │                      │                    │
//        └ no place      ├──────────────────────┴────── ends ────────┘
//                        └ gives way: all places of those that wait are taken, and another connection comes
//
// A connection that waits gives way if its address has the most connections that wait, and more than the newcomer's
// address; of these, the one that came first. Connections whose token is known give way only if no other can, by their
// token's name instead of their address.
//
// Pure, except for a mutex.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace weir::net {

class Door {
 public:
  struct Limits {
    std::size_t all = 512;                 // connections
    std::size_t waiting = 64;              // not yet admitted
    std::size_t waiting_per_address = 16;  // not yet admitted; no limit for an empty address
    std::size_t of_one_name = 128;         // named, admitted or not
    std::size_t waiting_of_one_name = 16;  // named, not yet admitted
  };

  /// The place of one connection, released by the destructor.
  class Place {
   public:
    Place(Door& door, std::string address, std::function<void()> give_way)
        : door_(door), address_(std::move(address)), give_way_(std::move(give_way)) {}
    ~Place() { door_.Leave(*this); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    /// Records the name in the connection's token; called once. Returns false if that name has too many connections.
    [[nodiscard]] bool Name(const std::string& name) { return door_.Name(*this, name); }
    void Admitted() { door_.Admit(*this); }

   private:
    friend class Door;
    Door& door_;
    const std::string address_;
    std::string name_;
    std::function<void()> give_way_;
    std::list<Place*>::iterator at_{};  // in waiting_, while it waits
    bool waits_ = true;
  };

  Door() = default;
  explicit Door(const Limits& limits) : limits_(limits) {}

  /// Null: no place is left for a connection from this address. `give_way` ends the connection; it is called at most
  /// once, in any thread, before Admitted() and the destructor return, and must not call the door.
  [[nodiscard]] std::unique_ptr<Place> Come(std::string address, std::function<void()> give_way) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_from_.find(address);
    const std::size_t same = found != waiting_from_.end() ? found->second : 0;
    if (all_ >= limits_.all || limits_.waiting == 0) return nullptr;
    if (!address.empty() && same >= limits_.waiting_per_address) return nullptr;
    if (waiting_.size() >= limits_.waiting) {
      Place* leaves = WhoGivesWay(/*named=*/false, same);
      if (leaves == nullptr) leaves = WhoGivesWay(/*named=*/true, same);
      if (leaves == nullptr) return nullptr;
      EndWaiting(*leaves);
      if (leaves->give_way_) leaves->give_way_();
    }
    auto place = std::make_unique<Place>(*this, std::move(address), std::move(give_way));
    ++all_;
    place->at_ = waiting_.insert(waiting_.end(), place.get());
    ++waiting_from_[place->address_];
    return place;
  }

 private:
  struct OfName {
    std::size_t all = 0, waiting = 0;
  };

  /// The connections that wait together with `place`, by their token's name or their address.
  [[nodiscard]] std::size_t Together(const Place& place) const {
    return place.name_.empty() ? waiting_from_.at(place.address_) : of_.at(place.name_).waiting;
  }
  /// Null: none of those that have a name, or have none, is together with more than `same`.
  [[nodiscard]] Place* WhoGivesWay(bool named, std::size_t same) const {
    Place* found = nullptr;
    std::size_t most = same;
    for (Place* const place : waiting_) {
      if (place->name_.empty() == named || Together(*place) <= most) continue;
      found = place;
      most = Together(*place);
    }
    return found;
  }
  bool Name(Place& place, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = of_.find(name);
    const OfName there = found != of_.end() ? found->second : OfName{};
    if (there.all >= limits_.of_one_name || (place.waits_ && there.waiting >= limits_.waiting_of_one_name))
      return false;
    of_[name] = {there.all + 1, there.waiting + (place.waits_ ? 1 : 0)};
    place.name_ = name;
    return true;
  }
  void Admit(Place& place) {
    const std::lock_guard lock(mutex_);
    EndWaiting(place);
    place.give_way_ = nullptr;
  }
  void Leave(Place& place) {
    const std::lock_guard lock(mutex_);
    EndWaiting(place);
    --all_;
    if (place.name_.empty()) return;
    const auto of = of_.find(place.name_);
    if (--of->second.all == 0) of_.erase(of);
  }
  void EndWaiting(Place& place) {
    if (!std::exchange(place.waits_, false)) return;
    waiting_.erase(place.at_);
    const auto from = waiting_from_.find(place.address_);
    if (--from->second == 0) waiting_from_.erase(from);
    if (!place.name_.empty()) --of_.find(place.name_)->second.waiting;
  }

  const Limits limits_{};
  std::mutex mutex_;
  std::size_t all_ = 0;
  std::list<Place*> waiting_;  // in the order in which they came
  std::map<std::string, std::size_t> waiting_from_;
  std::map<std::string, OfName> of_;
};

}  // namespace weir::net
