// SPDX-License-Identifier: Apache-2.0
// Keeps an executor's device memory within the daemon's orders. Sessions acquire the objects of a command before they
// enqueue it. Objects stay on the device until room is needed; then the least recently used move to host memory.
//
//   bytes of native objects ≤ assigned slots × 64 MiB
//
// Objects that batches in flight have pinned may exceed the bound for a while after an order has lowered it.
//
// The lock is not held while contents are copied or the driver is called. An object in transit is marked `moving` and
// belongs to the thread that moves it.
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

/// A command's use of a memory object.
struct MemoryUse {
  Stored* object = nullptr;
  bool writes = false;
  ByteRange range;           // relative to the object
  cl_mem* native = nullptr;  // receives the handle, which is valid while the object is pinned
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

  /// Creates a buffer or an image, or a part of one (`parent`). `first`: the initial content of a buffer, read at its
  /// first use.
  std::shared_ptr<Stored> Make(std::shared_ptr<Context> context, const Shape& shape, std::shared_ptr<Stored> parent,
                               const std::byte* first);
  /// Sets the initial content of an unused image. False: out of memory.
  static bool Fill(Stored& image, std::span<const std::byte> packed);

  enum class Outcome : std::uint8_t {
    kThere,
    kWouldWait,  // would have to wait, and was not allowed to
    kNever,      // exceeds the maximum
    kTooLong,    // nothing was freed within `at_most`
    kEnded,      // stop was requested
    kFailed,     // the driver's error is in `error`
  };
  struct Patience {
    // Called once before the first wait. Closes the session's batch, so that its pins are released. Null: do not wait.
    std::function<void()> before_waiting{};
    const std::atomic<bool>* stop = nullptr;
    Duration at_most{};  // zero: unlimited
  };
  /// Brings the objects of `uses` to the device. With `pins` they are pinned, marked as written where necessary, and
  /// their handles are filled in. Without `pins` they may be evicted again.
  Outcome Acquire(std::span<const MemoryUse> uses, Pins* pins, const Patience& patience, cl_int& error);
  /// Whether Acquire would succeed without waiting.
  [[nodiscard]] bool Ready(std::span<const MemoryUse> uses, const Pins* pins);
  /// Copies contents to host memory and releases the device memory. Until the next Acquire, the root's `host` holds the
  /// contents, and its session may read and write them. Returns kThere, or an error as Acquire does.
  Outcome Withdraw(Stored& root, const Patience& patience, cl_int& error);
  /// Whether to access a buffer in host memory: it is not on the device, and there is more memory than the device may
  /// hold at once, so that loading it would evict other objects. As after Withdraw, its session owns the contents until
  /// it acquires the buffer.
  [[nodiscard]] bool StaysOut(const Stored& root);
  /// Bytes that `uses` need on the device at once.
  [[nodiscard]] std::uint64_t BytesOf(std::span<const MemoryUse> uses);
  /// Bytes that may ever be on the device at once.
  [[nodiscard]] std::uint64_t MostBytes();
  /// Bytes that may be on the device now.
  [[nodiscard]] std::uint64_t AllowedBytes();
  /// Adds to the statistics of partitioned launches.
  void CountParts(const proto::ExecutorStatistics& more);
  /// Makes all waiters check their `stop`.
  void Wake();

  // -- For the thread that carries out the daemon's orders (memory_keeper.h)

  /// `turns`: a daemon can return slots that others use now. A command that would evict recently used objects then
  /// waits for the slots, because evicting for each command would copy endlessly.
  void Adopt(const gate::MemoryOrder& order, bool turns = false);
  /// Evicts objects beyond the order as far as possible. True: nothing exceeds it.
  bool CarryOut();
  /// Waits until pins are released or another state changes; at most `timeout`.
  void AwaitChange(Duration timeout);
  /// The statistics, except for `order_done` and the threads' waits.
  [[nodiscard]] proto::ExecutorStatistics Report();
  /// `tell` is called without a lock when a session begins to wait for slots, and when it has stopped waiting.
  void OnWait(std::function<void()> tell) { tell_ = std::move(tell); }

 private:
  friend class Pins;
  friend struct Stored;
  using Lock = std::unique_lock<std::mutex>;
  using Roots = std::vector<std::shared_ptr<Stored>>;

  /// A waiting session. Waiters form a queue in order of arrival.
  struct Waiter {
    std::int64_t since_ns = 0;
    std::uint64_t bytes = 0;
    std::vector<Held*> roots;
  };
  class InLine;
  struct Working;

  void Forget(Stored& object);
  /// Returns the unpinned objects, so that the caller can drop the last references without the lock.
  [[nodiscard]] Roots Unpin(Pins& pins);
  bool TryQuickly(std::span<const MemoryUse> uses, const Pins& pins) const;
  Outcome AcquireRoots(Working& work, Pins* pins, const Patience& patience);
  cl_int FillIn(std::span<const MemoryUse> uses);
  void PinAll(Working& work, Pins& pins);
  [[nodiscard]] Room RoomNow() const;
  [[nodiscard]] Demand DemandOf(const Working& work) const;
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
  /// Records that a native object is about to be released.
  void Leave(std::uint64_t bytes);
  /// Records that the driver has released it.
  void Left(std::uint64_t bytes);
  void WaitOutLink(std::int64_t begin_ns, std::uint64_t bytes) const;
  cl_int MakeAndFill(Stored& object, bool& counted);
  cl_int CountNative(Stored& object);
  void CountBytes(Stored& object);
  [[nodiscard]] std::uint64_t Excess(std::uint64_t more) const;
  static void CL_CALLBACK OnNativeReleased(cl_mem, void* data);

  const Options options_;
  std::function<void()> tell_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Ledger ledger_;
  std::list<Waiter*> line_;
  gate::MemoryOrder order_;
  bool turns_ = false;
  std::int64_t spilled_ns_ = 0;  // when it last evicted its own objects for lack of room; 0: never
  std::uint64_t taken_ = 0;      // bytes of native objects, including those being created
  std::uint64_t leaving_ = 0;    // the part of these that was released but not yet freed by the driver
  std::int64_t switch_copy_ns_ = 0;
  std::uint64_t copied_out_ = 0, copied_in_ = 0, evictions_ = 0;
  proto::ExecutorStatistics parts_;  // of partitioned launches; nothing else in it is set
};

/// For messages: "192.0 MiB".
std::string MebibytesOf(std::uint64_t bytes);

}  // namespace weir::opencl
