// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/buffer_store.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

/// A waiter that has waited this long goes before all later ones.
constexpr Duration kInLineAfter = milliseconds(20);
/// Objects that a session has waited for are reserved for this long, so that they are still there after the gate.
constexpr Duration kPromised = milliseconds(50);
/// Objects touched within this time count as in use in the statistics for the daemon.
constexpr Duration kInUse = milliseconds(500);
/// Objects touched within this time are wanted on the device together.
constexpr Duration kWanted = seconds(1);
/// The same while the store has no room. It is longer because a program that is slowed down by copying uses few of its
/// objects within a second.
constexpr Duration kWantedWithoutRoom = seconds(10);
/// The store counts as without room for this long after it evicted its own objects to make room.
constexpr Duration kWithoutRoom = seconds(2);
/// Limit of the wait for a turn: many other turns, each long enough to be worth its copies.
constexpr Duration kTurnWithin = seconds(30);
/// Interval at which a waiter looks again, because the end of a reservation or of the wait for a turn is not signalled.
constexpr Duration kLookWhileWaiting = milliseconds(50);

constexpr std::uint64_t kAllOfTheDevice = ~std::uint64_t{0};

std::atomic<std::uint64_t> g_pins_made{0};

}  // namespace

std::string MebibytesOf(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// -- Pins ------------------------------------------------------------------------------------------------------------

Pins::Pins(std::shared_ptr<BufferStore> store) : store_(std::move(store)), number_(++g_pins_made) {}

void Pins::Release() { static_cast<void>(store_->Unpin(*this)); }

BufferStore::Roots BufferStore::Unpin(Pins& pins) {
  const std::int64_t now_ns = platform::NowNs();
  const std::lock_guard lock(mutex_);
  Roots objects = std::exchange(pins.objects_, {});
  for (const auto& object : objects) ledger_.Unpin(*object, now_ns);
  if (!objects.empty()) changed_.notify_all();
  return objects;
}

// -- Acquiring -------------------------------------------------------------------------------------------------------

/// The state of one session's Acquire.
struct BufferStore::Working {
  Roots roots;  // without duplicates
  Waiter me;
  InLine* in_line = nullptr;
  std::int64_t until_ns = 0;       // 0: unlimited
  bool told = false;               // `before_waiting` was called
  std::uint64_t turn_bytes = 0;    // device memory it would have in its turn; 0: not determined yet
  std::int64_t turn_until_ns = 0;  // limit of the wait for its turn
  cl_int error = CL_SUCCESS;

  [[nodiscard]] std::uint64_t MissingBytes() const {
    std::uint64_t missing = 0;
    for (const auto& root : roots)
      if (!root->resident) missing += root->bytes;
    return missing;
  }
};

/// A place in the queue of waiters, released by the destructor.
class BufferStore::InLine {
 public:
  InLine(BufferStore& store, Waiter& waiter) : store_(store), waiter_(waiter) {}
  ~InLine() {
    if (!joined_) return;
    Lock lock(store_.mutex_);
    store_.line_.erase(at_);
    store_.changed_.notify_all();
    lock.unlock();
    if (store_.tell_) store_.tell_();
  }
  InLine(const InLine&) = delete;
  InLine& operator=(const InLine&) = delete;
  [[nodiscard]] bool joined() const { return joined_; }
  /// Requires the lock.
  bool Join(std::int64_t now_ns) {
    if (joined_) return false;
    joined_ = true;
    waiter_.since_ns = now_ns;
    at_ = store_.line_.insert(store_.line_.end(), &waiter_);
    return true;
  }

 private:
  BufferStore& store_;
  Waiter& waiter_;
  std::list<Waiter*>::iterator at_;
  bool joined_ = false;
};

Room BufferStore::RoomNow() const {
  if (!order_.elastic) return {options_.device_bytes, kAllOfTheDevice, taken_};
  const std::uint64_t most = order_.max > 0 ? order_.max * kSlotBytes.count : options_.device_bytes;
  return {std::min(most, options_.device_bytes), order_.here * kSlotBytes.count, taken_};
}

Demand BufferStore::DemandOf(const Working& work) const {
  Demand demand;
  demand.pinned_besides = ledger_.pinned();
  demand.missing = work.MissingBytes();
  for (const auto& root : work.roots) {
    demand.all += root->bytes;
    if (root->moving) demand.moving = true;
    if (root->pins > 0) demand.pinned_besides -= root->bytes;
  }
  return demand;
}

/// Whether an earlier waiter could proceed if others made room.
bool BufferStore::HasToQueue(const Waiter& me, std::int64_t now_ns) const {
  for (const Waiter* waiter : line_) {
    if (waiter == &me) return false;
    if (waiter->bytes <= RoomNow().allowed && now_ns - waiter->since_ns > kInLineAfter.count()) return true;
  }
  return false;
}

/// Bytes that must be evicted before `more` may be loaded, not counting those already being evicted.
std::uint64_t BufferStore::Excess(std::uint64_t more) const {
  const Room room = RoomNow();
  const std::uint64_t staying = room.taken - leaving_ + more;
  return staying > room.allowed ? staying - room.allowed : 0;
}

/// Returns true if there is room, or if one object was evicted to make it.
bool BufferStore::MakeRoom(Lock& lock, Working& work, std::uint64_t bytes) {
  const std::uint64_t excess = Excess(bytes);
  if (excess == 0) return RoomNow().taken + bytes <= RoomNow().allowed;
  std::vector<Held*> spare = work.me.roots;
  if (!line_.empty() && line_.front()->bytes <= RoomNow().allowed)
    spare.insert(spare.end(), line_.front()->roots.begin(), line_.front()->roots.end());
  const std::vector<Held*> victims = ledger_.Victims(excess, spare, platform::NowNs());
  std::uint64_t sum = 0;
  for (const Held* victim : victims) sum += victim->bytes;
  if (sum < excess) return false;
  spilled_ns_ = platform::NowNs();
  Evict(lock, static_cast<Stored&>(*victims.front()), /*for_an_order=*/false);
  return true;
}

/// Loads the first missing object, or makes room for it.
BufferStore::Brought BufferStore::BringOne(Lock& lock, Working& work) {
  if (!MakeRoom(lock, work, work.MissingBytes())) return Brought::kNone;
  // The lock may have been released meanwhile, and more may be missing: an order may have evicted an object of this
  // command.
  if (taken_ + work.MissingBytes() > RoomNow().allowed) return Brought::kSome;
  for (const auto& root : work.roots) {
    if (root->resident || root->moving) continue;
    work.error = Restore(lock, *root);
    return work.error == CL_SUCCESS ? Brought::kSome : Brought::kFailed;
  }
  return Brought::kSome;
}

/// Loads what fits while the rest has to wait, so that its copy overlaps with other programs' computing.
BufferStore::Brought BufferStore::BringAhead(Lock& lock, Working& work) {
  const Room room = RoomNow();
  for (const auto& root : work.roots) {
    if (root->resident || root->moving || room.taken + root->bytes > room.allowed) continue;
    work.error = Restore(lock, *root);
    return work.error == CL_SUCCESS ? Brought::kSome : Brought::kFailed;
  }
  return Brought::kNone;
}

/// Takes the next step of waiting: closes the session's batch, then joins the queue of waiters, then waits for a
/// change. False: the time for waiting is over.
bool BufferStore::Wait(Lock& lock, Working& work, const Patience& patience) {
  if (!work.told) {
    work.told = true;
    lock.unlock();
    patience.before_waiting();
    lock.lock();
    return true;
  }
  const std::int64_t now_ns = platform::NowNs();
  if (work.in_line->Join(now_ns)) {
    if (patience.at_most.count() > 0) work.until_ns = now_ns + patience.at_most.count();
    if (work.me.bytes > RoomNow().allowed && tell_) {
      lock.unlock();
      tell_();
      lock.lock();
      return true;
    }
  }
  Duration left = kLookWhileWaiting;
  if (work.until_ns != 0) left = std::min(left, Duration{work.until_ns - now_ns});
  if (left.count() <= 0) return false;
  changed_.wait_for(lock, left);
  return true;
}

/// The bytes that would be on the device together.
std::uint64_t BufferStore::WantedBytes(std::int64_t now_ns) const {
  const bool without_room = spilled_ns_ != 0 && now_ns - spilled_ns_ < kWithoutRoom.count();
  return ledger_.UsedSince(now_ns - (without_room ? kWantedWithoutRoom : kWanted).count());
}

/// Whether the session waits for slots that others have now, instead of evicting its own objects: its recent use fits
/// into all of its slots, but not into those that it has now.
bool BufferStore::RatherWaits(Working& work, std::int64_t now_ns) const {
  if (!turns_ || !order_.elastic || order_.here >= order_.limit) return false;
  if (Excess(work.MissingBytes()) == 0) return false;
  if (work.turn_bytes == 0) {
    work.turn_bytes = std::min(WantedBytes(now_ns), order_.limit * kSlotBytes.count);
    work.turn_until_ns = now_ns + kTurnWithin.count();
  }
  if (work.turn_bytes <= RoomNow().allowed || now_ns >= work.turn_until_ns) return false;
  work.me.bytes = std::max(work.me.bytes, work.turn_bytes);
  return true;
}

BufferStore::Outcome BufferStore::AcquireRoots(Working& work, Pins* pins, const Patience& patience) {
  InLine in_line(*this, work.me);
  work.in_line = &in_line;
  Lock lock(mutex_);
  for (;;) {
    if (patience.stop != nullptr && patience.stop->load(std::memory_order_relaxed)) return Outcome::kEnded;
    const std::int64_t now_ns = platform::NowNs();
    for (const auto& root : work.roots) ledger_.Touch(*root, now_ns);
    const Demand demand = DemandOf(work);
    work.me.bytes = demand.all;
    Step step = NextStep(RoomNow(), demand);
    if (step == Step::kGo) {
      if (pins != nullptr) {
        PinAll(work, *pins);
      } else if (in_line.joined()) {
        for (const auto& root : work.roots) root->promised_ns = now_ns + kPromised.count();
      }
      return Outcome::kThere;
    }
    if (step == Step::kNever) return Outcome::kNever;
    Brought brought = Brought::kNone;
    if (step == Step::kBring && !HasToQueue(work.me, now_ns)) {
      if (!RatherWaits(work, now_ns)) brought = BringOne(lock, work);
    } else if (work.told && !demand.moving && demand.all > RoomNow().allowed) {
      brought = BringAhead(lock, work);
    }
    if (brought == Brought::kFailed) return Outcome::kFailed;
    if (brought == Brought::kSome) continue;
    if (!patience.before_waiting) return Outcome::kWouldWait;
    if (!Wait(lock, work, patience)) return Outcome::kTooLong;
  }
}

void BufferStore::PinAll(Working& work, Pins& pins) {
  const std::int64_t now_ns = platform::NowNs();
  for (auto& root : work.roots) {
    if (root->pinned_by == pins.number_) continue;
    root->pinned_by = pins.number_;
    ledger_.Pin(*root, now_ns);
    pins.objects_.push_back(root);
  }
}

bool BufferStore::TryQuickly(std::span<const MemoryUse> uses, const Pins& pins) const {
  return std::ranges::all_of(uses, [&](const MemoryUse& use) { return use.object->root().pinned_by == pins.number_; });
}

/// The pinned objects belong to this thread. Creates the handles of parts and records what will be written.
cl_int BufferStore::FillIn(std::span<const MemoryUse> uses) {
  for (const MemoryUse& use : uses) {
    for (std::vector<Stored*> missing{use.object}; use.object->native == nullptr;) {
      Stored& at = *missing.back();
      if (at.parent && at.parent->native == nullptr) {
        missing.push_back(at.parent.get());
        continue;
      }
      if (const cl_int error = at.MakeNative(); error != CL_SUCCESS) return error;
      missing.pop_back();
    }
    *use.native = use.object->native;
    if (!use.writes) continue;
    Stored& root = use.object->root();
    const ByteRange range = use.object->InRoot(use.range);
    root.dirty.Cover(range);
    root.content.Cover(range);
  }
  return CL_SUCCESS;
}

BufferStore::Outcome BufferStore::Acquire(std::span<const MemoryUse> uses, Pins* pins, const Patience& patience,
                                          cl_int& error) {
  error = CL_SUCCESS;
  if (pins == nullptr || !TryQuickly(uses, *pins)) {
    Working work;
    for (const MemoryUse& use : uses) {
      Stored& root = use.object->root();
      if (std::ranges::find(work.me.roots, &root) != work.me.roots.end()) continue;
      work.me.roots.push_back(&root);
      work.roots.push_back(root.shared_from_this());
    }
    const Outcome outcome = AcquireRoots(work, pins, patience);
    error = work.error;
    if (outcome != Outcome::kThere) return outcome;
  }
  if (pins != nullptr) error = FillIn(uses);
  return error == CL_SUCCESS ? Outcome::kThere : Outcome::kFailed;
}

bool BufferStore::Ready(std::span<const MemoryUse> uses, const Pins* pins) {
  if (pins != nullptr && TryQuickly(uses, *pins)) return true;
  const std::lock_guard lock(mutex_);
  return taken_ <= RoomNow().allowed && std::ranges::all_of(uses, [](const MemoryUse& use) {
           return use.object->root().resident && !use.object->root().moving;
         });
}

std::uint64_t BufferStore::BytesOf(std::span<const MemoryUse> uses) {
  std::vector<const Stored*> roots;
  for (const MemoryUse& use : uses) roots.push_back(&use.object->root());
  std::ranges::sort(roots);
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  std::uint64_t sum = 0;
  for (const Stored* root : roots) sum += root->bytes;
  return sum;
}

std::uint64_t BufferStore::MostBytes() {
  const std::lock_guard lock(mutex_);
  return RoomNow().most;
}

std::uint64_t BufferStore::AllowedBytes() {
  const std::lock_guard lock(mutex_);
  return std::min(RoomNow().allowed, RoomNow().most);
}

BufferStore::Outcome BufferStore::Withdraw(Stored& root, const Patience& patience, cl_int& error) {
  patience.before_waiting();
  Lock lock(mutex_);
  while (root.resident || root.moving) {
    if (patience.stop->load(std::memory_order_relaxed)) return Outcome::kEnded;
    if (root.stuck) {
      error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
      return Outcome::kFailed;
    }
    if (root.moving || root.pins > 0)
      changed_.wait_for(lock, kLookWhileWaiting);
    else
      Evict(lock, root, /*for_an_order=*/false);
  }
  lock.unlock();
  error = root.MakeHost();
  return error == CL_SUCCESS ? Outcome::kThere : Outcome::kFailed;
}

bool BufferStore::StaysOut(const Stored& root) {
  const std::lock_guard lock(mutex_);
  return ledger_.made() > RoomNow().most && !root.resident && !root.moving && !root.shape.image;
}

void BufferStore::Wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

// -- Orders and statistics --------------------------------------------------------------------------------------------

void BufferStore::Adopt(const gate::MemoryOrder& order, bool turns) {
  const std::lock_guard lock(mutex_);
  if (order == order_ && turns == turns_) return;
  order_ = order;
  turns_ = turns;
  changed_.notify_all();
}

bool BufferStore::CarryOut() {
  Lock lock(mutex_);
  for (;;) {
    const Room room = RoomNow();
    if (room.taken <= room.allowed) return true;
    // Objects that the longest waiter needs are evicted last.
    const std::uint64_t excess = Excess(0);
    std::vector<Held*> victims;
    if (!line_.empty()) victims = ledger_.Victims(excess, line_.front()->roots);
    if (victims.empty()) victims = ledger_.Victims(excess, {});
    if (victims.empty()) return false;
    Evict(lock, static_cast<Stored&>(*victims.front()), /*for_an_order=*/true);
  }
}

void BufferStore::AwaitChange(Duration timeout) {
  Lock lock(mutex_);
  changed_.wait_for(lock, timeout);
}

void BufferStore::CountParts(const proto::ExecutorStatistics& more) {
  const std::lock_guard lock(mutex_);
  proto::Combine(parts_, more);
}

proto::ExecutorStatistics BufferStore::Report() {
  const std::int64_t now_ns = platform::NowNs();
  const std::lock_guard lock(mutex_);
  proto::ExecutorStatistics report = parts_;
  report.resident_slots = static_cast<std::uint32_t>((taken_ + kSlotBytes.count - 1) / kSlotBytes.count);
  report.resident = Bytes{taken_};
  report.made = Bytes{ledger_.made()};
  report.in_use = Bytes{ledger_.UsedSince(now_ns - kInUse.count())};
  report.need = std::min(Bytes{WantedBytes(now_ns)}, report.made);
  // A session reports its need until everything it waited for is there. Until then its turn has not begun, and slots
  // taken away while it copies would have been assigned in vain.
  if (!line_.empty()) report.must = Bytes{line_.front()->bytes};
  for (const Waiter* waiter : line_)
    if (waiter->bytes > RoomNow().allowed) {
      report.must = Bytes{waiter->bytes};
      break;
    }
  report.need = std::max(report.need, report.must);
  report.switch_copy = Duration{switch_copy_ns_};
  report.copied_out = Bytes{copied_out_};
  report.copied_in = Bytes{copied_in_};
  report.evictions = evictions_;
  return report;
}

}  // namespace weir::opencl
