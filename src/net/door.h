// SPDX-License-Identifier: Apache-2.0
// Limits the connections of a service, so that no single address or token can occupy all places.
//
//   Come(address) ──▶ unknown ──Name(name)──▶ named ──Admitted──▶ admitted
//        │               │                      │                    │
//        └ no place      └──────────────────────┴────── ends ────────┘
//
// Pure, except for a mutex.
#pragma once

#include <cstddef>
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
    Place(Door& door, std::string address) : door_(door), address_(std::move(address)) {}
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
    bool admitted_ = false;
  };

  Door() = default;
  explicit Door(const Limits& limits) : limits_(limits) {}

  /// Null: no place is left for a connection from this address.
  [[nodiscard]] std::unique_ptr<Place> Come(std::string address) {
    const std::lock_guard lock(mutex_);
    const auto same = waiting_from_.find(address);
    if (all_ >= limits_.all || waiting_ >= limits_.waiting) return nullptr;
    if (!address.empty() && same != waiting_from_.end() && same->second >= limits_.waiting_per_address) return nullptr;
    ++all_;
    ++waiting_;
    ++waiting_from_[address];
    return std::make_unique<Place>(*this, std::move(address));
  }

 private:
  struct OfName {
    std::size_t all = 0, waiting = 0;
  };

  bool Name(Place& place, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = of_.find(name);
    const OfName there = found != of_.end() ? found->second : OfName{};
    if (there.all >= limits_.of_one_name || there.waiting >= limits_.waiting_of_one_name) return false;
    of_[name] = {there.all + 1, there.waiting + 1};
    place.name_ = name;
    return true;
  }
  void Admit(Place& place) {
    const std::lock_guard lock(mutex_);
    EndWaiting(place);
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
    if (std::exchange(place.admitted_, true)) return;
    --waiting_;
    const auto from = waiting_from_.find(place.address_);
    if (--from->second == 0) waiting_from_.erase(from);
    if (!place.name_.empty()) --of_.find(place.name_)->second.waiting;
  }

  const Limits limits_{};
  std::mutex mutex_;
  std::size_t all_ = 0, waiting_ = 0;
  std::map<std::string, std::size_t> waiting_from_;
  std::map<std::string, OfName> of_;
};

}  // namespace weir::net
