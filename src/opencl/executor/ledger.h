// SPDX-License-Identifier: Apache-2.0
// Which of an executor's buffers and images are on the device, which of them go first, and what a command that doesn't
// find all of its own there is to do. Pure: knows no driver, no clock and no lock.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <span>
#include <vector>

namespace weir::opencl {

/// A buffer or an image as the ledger knows it; parts of buffers belong to their buffer's.
struct Held {
  std::uint64_t bytes = 0;  // on the device, when it is there
  bool resident = false;
  bool moving = false;  // on its way out or in
  bool stuck = false;   // the driver doesn't give its contents out: it stays
  bool spared = false;  // by Victims, for who asks
  int pins = 0;         // batches that use it
  std::int64_t used_ns = 0;
  std::int64_t promised_ns = 0;  // until then it stays for who has waited for it, unless an order takes it
  std::list<Held*>::iterator place;
};

class Ledger {
 public:
  void Add(Held& item, std::int64_t now_ns);
  void Remove(Held& item);
  void SetResident(Held& item, bool resident);
  /// What it takes on the device is known better than before.
  void SetBytes(Held& item, std::uint64_t bytes);
  void Touch(Held& item, std::int64_t now_ns);
  void Pin(Held& item, std::int64_t now_ns);
  void Unpin(Held& item, std::int64_t now_ns);

  static constexpr std::int64_t kWhateverWasPromised = std::numeric_limits<std::int64_t>::max();
  /// Who goes so that `excess` bytes come free: those unused for longest, and no one in vain; all that can go when
  /// that doesn't suffice. `spare` stay, and what is promised beyond `now_ns`.
  [[nodiscard]] std::vector<Held*> Victims(std::uint64_t excess, std::span<Held* const> spare,
                                           std::int64_t now_ns = kWhateverWasPromised) const;
  /// Bytes of what was touched at `since_ns` or later or is pinned, resident or not.
  [[nodiscard]] std::uint64_t UsedSince(std::int64_t since_ns) const;

  [[nodiscard]] std::uint64_t made() const { return made_; }
  [[nodiscard]] std::uint64_t pinned() const { return pinned_; }

 private:
  using List = std::list<Held*>;
  [[nodiscard]] List& ListOf(const Held& item) { return item.resident ? resident_ : elsewhere_; }
  static void Sort(List& from, List& to, Held& item);

  List resident_, elsewhere_;  // each with what was used last at its end
  std::uint64_t made_ = 0, pinned_ = 0;
};

/// Bytes of the device, as far as one executor is concerned.
struct Room {
  std::uint64_t most = 0;     // it may ever have at once
  std::uint64_t allowed = 0;  // it may have now
  std::uint64_t taken = 0;    // it has
};
/// What a command needs at once.
struct Wish {
  std::uint64_t all = 0;
  std::uint64_t missing = 0;  // of it, not on the device
  std::uint64_t pinned_besides = 0;
  bool moving = false;  // some of it is just going
};
enum class Step : std::uint8_t {
  kGo,     // it may run
  kNever,  // it never can
  kBring,  // what is missing may come, where need be for others of its own
  kWait,
};
Step NextStep(const Room& room, const Wish& wish);

}  // namespace weir::opencl
