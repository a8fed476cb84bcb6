// SPDX-License-Identifier: Apache-2.0
// Records which buffers and images of an executor are on the device, selects those to evict, and decides what a command
// does whose objects are not all there. Pure: no driver, clock or lock.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <span>
#include <vector>

namespace weir::opencl {

/// A buffer or an image. A part of a buffer belongs to its root's entry.
struct Held {
  std::uint64_t bytes = 0;  // its size on the device
  bool resident = false;
  bool moving = false;  // in transit in either direction
  bool stuck = false;   // the driver does not return its contents: it cannot be evicted
  bool spared = false;  // excluded by the caller of Victims
  int pins = 0;         // number of batches that use it
  std::int64_t used_ns = 0;
  // Until then it is reserved for the session that has waited for it, unless an order takes it.
  std::int64_t promised_ns = 0;
  std::list<Held*>::iterator place;  // in one of the ledger's lists
};

class Ledger {
 public:
  void Add(Held& item, std::int64_t now_ns);
  void Remove(Held& item);
  void SetResident(Held& item, bool resident);
  /// Corrects the size of an item on the device.
  void SetBytes(Held& item, std::uint64_t bytes);
  void Touch(Held& item, std::int64_t now_ns);
  void Pin(Held& item, std::int64_t now_ns);
  void Unpin(Held& item, std::int64_t now_ns);

  static constexpr std::int64_t kWhateverWasPromised = std::numeric_limits<std::int64_t>::max();
  /// The items to evict so that `excess` bytes become free: the least recently used, without unneeded ones. All
  /// evictable items if they do not suffice. Excludes `spare` and reservations beyond `now_ns`.
  [[nodiscard]] std::vector<Held*> Victims(std::uint64_t excess, std::span<Held* const> spare,
                                           std::int64_t now_ns = kWhateverWasPromised) const;
  /// Bytes of items touched since `since_ns` or pinned, resident or not.
  [[nodiscard]] std::uint64_t UsedSince(std::int64_t since_ns) const;

  [[nodiscard]] std::uint64_t made() const { return made_; }
  [[nodiscard]] std::uint64_t pinned() const { return pinned_; }

 private:
  using List = std::list<Held*>;
  [[nodiscard]] List& ListOf(const Held& item) { return item.resident ? resident_ : elsewhere_; }
  static void Sort(List& from, List& to, Held& item);

  List resident_, elsewhere_;  // each in order of last use
  std::uint64_t made_ = 0, pinned_ = 0;
};

/// The device memory of one executor, in bytes.
struct Room {
  std::uint64_t most = 0;     // may ever be used at once
  std::uint64_t allowed = 0;  // may be used now
  std::uint64_t taken = 0;    // is used
};
/// The needs of a command.
struct Demand {
  std::uint64_t all = 0;
  std::uint64_t missing = 0;  // the part that is not on the device
  std::uint64_t pinned_besides = 0;
  bool moving = false;  // part of it is in transit
};
enum class Step : std::uint8_t {
  kGo,     // the command may run
  kNever,  // the command can never run
  kBring,  // missing objects may be loaded, evicting others if necessary
  kWait,
};
Step NextStep(const Room& room, const Demand& demand);

}  // namespace weir::opencl
