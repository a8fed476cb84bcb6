// SPDX-License-Identifier: Apache-2.0
// Keeps what an executor has on the device within what the daemon orders. Sessions acquire what a command uses before
// they enqueue it; what is in nobody's way stays, the coldest goes to host memory when room is needed.
//
//   bytes of native objects ≤ here × 64 MiB, but for what batches in flight have pinned when an order lowers it
//
// The lock is not held while contents are copied, nor while the driver is called: an object on its way is `moving`, and
// is whose who moves it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "gate/agent.h"
#include "opencl/executor/ledger.h"
#include "opencl/executor/stored.h"

namespace weir::opencl {

/// What a command uses of a memory object.
struct MemoryUse {
  Stored* object = nullptr;
  bool writes = false;
  ByteRange range;           // of the object
  cl_mem* native = nullptr;  // where to put the handle that is valid as long as the pin is
};

/// Of launches in parts: totals, or of one launch.
struct PartsCount {
  std::uint64_t launches = 0;  // they ran to their end
  std::uint64_t parts = 0;     // of these
  std::uint64_t in_bytes = 0;  // of their slices, from host memory to the device and back
  std::uint64_t out_bytes = 0;
  std::uint64_t not_cut = 0;     // launches that should have run in parts, and could not
  Duration decide{}, compile{};  // before the first part: the plan made, and parts' kernels
};

/// The objects that a batch has pinned. They are unpinned when this ends, or before by Release.
class Pins {
 public:
  explicit Pins(std::shared_ptr<BufferStore> store);
  ~Pins() { Release(); }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  /// Unpins all objects. Any thread may call it, more than once, after the batch's commands have ended.
  void Release();

 private:
  friend class BufferStore;
  const std::shared_ptr<BufferStore> store_;
  const std::uint64_t number_;
  std::vector<std::shared_ptr<Stored>> objects_;  // roots; guarded by the store's lock
};

class BufferStore : public std::enable_shared_from_this<BufferStore> {
 public:
  struct Options {
    std::uint64_t device_bytes = 0;
    double copy_bytes_per_s = 0;  // of a modelled link; 0: as fast as it goes
  };
  explicit BufferStore(const Options& options) : options_(options) {}

  /// A buffer or an image, or a part of one (`parent`). `first`: a buffer's first content, read when it is first used.
  std::shared_ptr<Stored> Make(std::shared_ptr<Context> context, const Shape& shape, std::shared_ptr<Stored> parent,
                               const std::byte* first);
  /// Gives an image that has not been used its first content. False: no memory.
  static bool Fill(Stored& image, std::span<const std::byte> packed);

  enum class Outcome : std::uint8_t {
    kThere,
    kWouldWait,  // and was not to
    kNever,      // more than it may ever have
    kTooLong,    // nothing came free within `at_most`
    kEnded,      // told to stop
    kFailed,     // the driver's error is in `error`
  };
  struct Patience {
    std::function<void()> before_waiting{};  // null: doesn't wait. Closes the session's batch, so that its pins drop
    const std::atomic<bool>* stop = nullptr;
    Duration at_most{};  // zero: as long as it takes
  };
  /// Brings what `uses` need to the device. With `pins` they are pinned there, marked as written where they are, and
  /// their handles filled in; without, they may go again.
  Outcome Acquire(std::span<const MemoryUse> uses, Pins* pins, const Patience& patience, cl_int& error);
  /// Whether it would do so at once.
  [[nodiscard]] bool Ready(std::span<const MemoryUse> uses, const Pins* pins);
  /// Brings contents to host memory and takes them off the device: until it is acquired again, a root's `host` holds
  /// them, for its session to read and write. kThere, or as Acquire.
  Outcome Withdraw(Stored& root, const Patience& patience, cl_int& error);
  /// There is more than may ever be on the device at once, and this is a buffer that is not there: read and written in
  /// host memory it throws nothing else out. As after Withdraw that is its session's until it acquires it.
  [[nodiscard]] bool StaysOut(const Stored& root);
  /// Bytes that these need at once, and that there may ever be.
  [[nodiscard]] std::uint64_t BytesOf(std::span<const MemoryUse> uses);
  [[nodiscard]] std::uint64_t MostBytes();
  /// That there may be now.
  [[nodiscard]] std::uint64_t AllowedBytes();
  /// Adds to the books.
  void CountParts(const PartsCount& more);
  /// Lets those who wait look at their `stop`.
  void Wake();

  // -- For whoever carries the daemon's orders here (memory_keeper.h)

  /// `turns`: a daemon is there, which gives slots that are others' now back. A command that would throw out what was
  /// used a moment ago waits for them then: evicting for each command copies without end.
  void Adopt(const gate::MemoryOrder& order, bool turns = false);
  /// Evicts what is over and can go. True: nothing is over.
  bool CarryOut();
  /// Until pins drop or something else has changed; at most `timeout`.
  void AwaitChange(Duration timeout);
  /// The books, but for `done` and the threads'.
  [[nodiscard]] gate::MemoryReport Report();
  /// Called without a lock when a session begins to wait for slots, and when it has what it waited for.
  void OnWait(std::function<void()> tell) { tell_ = std::move(tell); }

 private:
  friend class Pins;
  friend struct Stored;
  using Lock = std::unique_lock<std::mutex>;
  using Roots = std::vector<std::shared_ptr<Stored>>;

  /// A session that waits, in the order in which they came.
  struct Waiter {
    std::int64_t since_ns = 0;
    std::uint64_t bytes = 0;
    std::vector<Held*> roots;
  };
  class InLine;
  struct Working;

  void Forget(Stored& object);
  /// Returns what was pinned, so that the caller may drop the last references without the lock.
  [[nodiscard]] Roots Unpin(Pins& pins);
  bool TryQuickly(std::span<const MemoryUse> uses, const Pins& pins) const;
  Outcome AcquireRoots(Working& work, Pins* pins, const Patience& patience);
  cl_int FillIn(std::span<const MemoryUse> uses);
  void PinAll(Working& work, Pins& pins);
  [[nodiscard]] Room RoomNow() const;
  [[nodiscard]] Wish WishOf(const Working& work) const;
  bool HasToQueue(const Waiter& me, std::int64_t now_ns) const;
  [[nodiscard]] std::uint64_t WantedBytes(std::int64_t now_ns) const;
  bool RatherWaits(Working& work, std::int64_t now_ns) const;
  enum class Brought : std::uint8_t { kSome, kNone, kFailed };
  Brought BringOne(Lock& lock, Working& work);
  Brought BringAhead(Lock& lock, Working& work);
  bool MakeRoom(Lock& lock, Working& work, std::uint64_t bytes);
  bool Wait(Lock& lock, Working& work, const Patience& patience);

  cl_int Restore(Lock& lock, Stored& object);
  void Evict(Lock& lock, Stored& object, bool for_an_order);
  /// A native object is about to be released; `Left` when the driver has done so.
  void Leave(std::uint64_t bytes);
  void Left(std::uint64_t bytes);
  void WaitOutLink(std::int64_t begin_ns, std::uint64_t bytes) const;
  cl_int MakeAndFill(Stored& object, bool& counted);
  cl_int CountNative(Stored& object);
  void CountBytes(Stored& object);
  [[nodiscard]] std::uint64_t Excess(std::uint64_t more) const;
  static void CL_CALLBACK WhenNativeGone(cl_mem, void* data);

  const Options options_;
  std::function<void()> tell_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Ledger ledger_;
  std::list<Waiter*> line_;
  gate::MemoryOrder order_;
  bool turns_ = false;
  std::int64_t spilled_ns_ = 0;  // when it last evicted its own for lack of room; 0: never
  std::uint64_t taken_ = 0;      // bytes of native objects, and of those that are being made
  std::uint64_t leaving_ = 0;    // of these, released: the driver has not let go of them yet
  std::int64_t switch_copy_ns_ = 0;
  std::uint64_t copied_out_ = 0, copied_in_ = 0, evictions_ = 0;
  PartsCount parts_;
};

/// For people: "192.0 MiB".
std::string MebibytesOf(std::uint64_t bytes);

}  // namespace weir::opencl
