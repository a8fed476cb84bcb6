// SPDX-License-Identifier: Apache-2.0
// The objects that modules keep in a context between runs (keep, find and make_room of weir_run), and their eviction.
// Thread-safe.
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
  /// One name of one tenant's module.
  struct Key {
    std::uint64_t tenant = 0;
    std::string blob, name;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  static constexpr std::size_t kObjectsMax = 1024;

  explicit ResidualData(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// Keeps the object; `run` uses it from now on. False: the object is larger than the total limit, or objects in use
  /// leave no room.
  bool Keep(std::uint64_t run, const Key& key, void* object, std::uint64_t bytes, Release release);
  /// `run` uses the object from now on; null: nothing is kept under that name.
  void* Find(std::uint64_t run, const Key& key);
  /// Releases unused objects, least recently found first. Returns the number of bytes.
  std::uint64_t MakeRoom(std::uint64_t bytes);
  /// The run uses no object any more.
  void EndRun(std::uint64_t run);
  /// Releases all objects of a module; none may be in use.
  void Forget(const std::string& blob);

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Object {
    Key key;
    void* object = nullptr;
    std::uint64_t bytes = 0;
    Release release = nullptr;
    std::set<std::uint64_t> users{};  // numbers of runs
    bool replaced = false;            // Find no longer returns it; released after its last user
  };
  using Objects = std::list<Object>;

  /// Removes unused objects, least recently used first, until there is room for `bytes` and `count` objects.
  Objects TakeOut(std::uint64_t bytes, std::size_t count);
  /// Calls modules' code, so that no lock may be held.
  static void ReleaseAll(Objects& objects);

  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  Objects objects_;  // least recently used first
  std::uint64_t bytes_ = 0;
};

}  // namespace weir::modules
