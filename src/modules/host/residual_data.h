// SPDX-License-Identifier: Apache-2.0
// What modules keep in a context between runs (weir_run's keep, find and make_room), and when it goes. For any thread.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace weir::modules {

class ResidualData {
 public:
  using Release = void (*)(void* object);
  /// Of one tenant's module, under one name.
  struct Key {
    std::uint64_t tenant = 0;
    std::string blob, name;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  static constexpr std::size_t kObjectsMax = 1024;

  explicit ResidualData(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// In use by `run` from now on. False: it is larger than all that may be kept, or there is no room beside what is in
  /// use.
  bool Keep(std::uint64_t run, const Key& key, void* object, std::uint64_t bytes, Release release);
  /// In use by `run` from now on; null: nothing is kept under that name.
  void* Find(std::uint64_t run, const Key& key);
  /// Releases what is not in use, the one that was found longest ago first. Returns the bytes.
  std::uint64_t MakeRoom(std::uint64_t bytes);
  /// Uses nothing any more.
  void EndRun(std::uint64_t run);
  /// Releases all of a module, none of which is in use.
  void Forget(const std::string& blob);

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Object {
    Key key;
    void* object = nullptr;
    std::uint64_t bytes = 0;
    Release release = nullptr;
    std::set<std::uint64_t> users{};  // runs
    bool replaced = false;            // nobody finds it any more; it goes with its last user
  };
  using Objects = std::list<Object>;

  /// Takes out what may go, least recently used first, until `bytes` and `count` objects are free.
  Objects TakeOut(std::uint64_t bytes, std::size_t count);
  /// With no lock held: it is a module's code.
  static void ReleaseAll(Objects& objects);

  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  Objects objects_;  // least recently used first
  std::uint64_t bytes_ = 0;
};

}  // namespace weir::modules
