// SPDX-License-Identifier: Apache-2.0
// The store against a fake driver, with several threads: which sessions wait, which proceed, and the effects of a
// driver's errors. Slots are 64 MiB, and only the written pages of an object are touched.
#include "opencl/executor/buffer_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/harness/fake_opencl.h"

namespace weir::opencl {
namespace {

using Outcome = BufferStore::Outcome;

class StoreOfBuffers : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kMiBytes = 1 << 20;

  StoreOfBuffers() { Allow(1); }

  void Allow(std::uint32_t here, std::uint32_t max = 0) {
    store_->Adopt({.number = ++number_, .elastic = true, .limit = 4, .here = here, .max = max});
  }
  std::shared_ptr<Stored> Make(std::uint64_t mib) {
    return store_->Make(context_, {.size = mib * kMiBytes}, nullptr, nullptr);
  }
  static MemoryUse Of(const std::shared_ptr<Stored>& object, cl_mem& native, bool writes = false) {
    return {.object = object.get(), .writes = writes, .range = {0, 16}, .native = &native};
  }
  Outcome Pin(const std::shared_ptr<Stored>& object, Pins& pins, bool writes = false) {
    cl_mem native = nullptr;
    const MemoryUse uses[] = {Of(object, native, writes)};
    return store_->Acquire(uses, &pins, {}, error_);
  }
  /// A session that acquires the object, records its number, and pins it briefly.
  std::thread Session(const std::shared_ptr<Stored>& object, int who) {
    return std::thread([this, object, who] {
      cl_mem native = nullptr;
      cl_int error = CL_SUCCESS;
      const MemoryUse uses[] = {Of(object, native)};
      const BufferStore::Patience patience{.before_waiting = [] {}, .stop = &stop_};
      EXPECT_EQ(store_->Acquire(uses, nullptr, patience, error), Outcome::kThere);
      {
        const std::lock_guard lock(mutex_);
        order_.push_back(who);
      }
      Pins pins(store_);
      while (store_->Acquire(uses, &pins, {}, error) != Outcome::kThere)
        EXPECT_EQ(store_->Acquire(uses, nullptr, patience, error), Outcome::kThere);
    });
  }
  void AwaitWaiting(std::uint64_t must) {
    while (store_->Report().must.count != must) std::this_thread::yield();
  }

  testing::FakeOpenCl driver_;
  std::shared_ptr<Context> context_ = driver_.MakeContext();
  std::shared_ptr<BufferStore> store_ =
      std::make_shared<BufferStore>(BufferStore::Options{.device_bytes = 512 * kMiBytes});
  std::uint32_t number_ = 0;
  cl_int error_ = CL_SUCCESS;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<int> order_;
};

TEST_F(StoreOfBuffers, PinnedBuffersStayUntilTheirBatchIsDone) {
  const auto object = Make(40);
  auto pins = std::make_unique<Pins>(store_);
  ASSERT_EQ(Pin(object, *pins), Outcome::kThere);
  Allow(0);
  EXPECT_FALSE(store_->CarryOut());
  EXPECT_EQ(driver_.alive, 1);
  EXPECT_EQ(Pin(object, *pins), Outcome::kThere);  // the open batch may use what it has pinned
  Pins next(store_);
  EXPECT_EQ(Pin(object, next), Outcome::kWouldWait);  // but no other batch begins
  pins.reset();
  EXPECT_TRUE(store_->CarryOut());
  EXPECT_EQ(driver_.alive, 0);
  EXPECT_EQ(store_->Report().evictions, 1U);
}

TEST_F(StoreOfBuffers, ASessionThatWouldEvictForEachCommandWaitsForItsTurn) {
  const auto one = Make(40), other = Make(40);
  {
    Pins pins(store_);
    ASSERT_EQ(Pin(one, pins, true), Outcome::kThere);
  }
  store_->Adopt({.number = 8, .elastic = true, .limit = 4, .here = 1}, /*turns=*/true);
  auto session = Session(other, 1);
  AwaitWaiting(80 * kMiBytes);  // both: its recent use
  EXPECT_EQ(store_->Report().evictions, 0U);
  store_->Adopt({.number = 10, .elastic = true, .limit = 4, .here = 4}, /*turns=*/true);
  session.join();
  EXPECT_EQ(store_->Report().evictions, 0U);
  EXPECT_EQ(store_->Report().must.count, 0U);

  // Without a daemon no slots are returned: it continues with what it has.
  store_->Adopt({.number = 12, .elastic = true, .limit = 4, .here = 1}, /*turns=*/false);
  ASSERT_TRUE(store_->CarryOut());
  EXPECT_EQ(store_->Report().evictions, 1U);
  for (const auto& object : {one, other}) Session(object, 2).join();
  EXPECT_GE(store_->Report().evictions, 2U);
}

TEST_F(StoreOfBuffers, SlotsAreKeptUntilTheirContentsAreCopied) {
  const auto object = Make(40);
  {
    Pins pins(store_);
    ASSERT_EQ(Pin(object, pins, true), Outcome::kThere);
  }
  Allow(0);
  ASSERT_TRUE(store_->CarryOut());
  std::uint64_t must = 0;
  int told = 0;
  driver_.on_write = [&] { must = store_->Report().must.count; };
  store_->OnWait([&] { ++told; });
  auto session = Session(object, 1);
  AwaitWaiting(40 * kMiBytes);
  Allow(1);
  session.join();
  EXPECT_EQ(must, 40 * kMiBytes) << "while it is copied";
  EXPECT_EQ(store_->Report().must.count, 0U);
  EXPECT_EQ(told, 2) << "that it waits, and that it waits no more";
}

TEST_F(StoreOfBuffers, ASessionThatEvictsItsOwnBuffersRequestsItsWholeUse) {
  store_->Adopt({.number = 8, .elastic = true, .limit = 1, .here = 1, .max = 4});
  const auto one = Make(40), other = Make(40);
  {
    Pins pins(store_);
    ASSERT_EQ(Pin(one, pins, true), Outcome::kThere);
  }
  ::usleep(1'100'000);
  EXPECT_EQ(store_->Report().need.count, 0U) << "it rests";
  {
    Pins pins(store_);
    ASSERT_EQ(Pin(other, pins, true), Outcome::kThere);
  }
  EXPECT_EQ(store_->Report().evictions, 1U);
  EXPECT_EQ(store_->Report().need.count, 80 * kMiBytes);
}

TEST_F(StoreOfBuffers, ABatchKeepsReleasedBuffers) {
  auto object = Make(40);
  auto pins = std::make_unique<Pins>(store_);
  ASSERT_EQ(Pin(object, *pins), Outcome::kThere);
  object.reset();
  EXPECT_EQ(store_->Report().made.count, 40 * kMiBytes);
  pins.reset();
  EXPECT_EQ(store_->Report().made.count, 0U);
  EXPECT_EQ(store_->Report().resident_slots, 0U);
}

TEST_F(StoreOfBuffers, ADriverThatReleasesLateCausesNoExtraEvictions) {
  const auto one = Make(30), other = Make(30), third = Make(60);
  for (const auto& object : {one, other}) {
    Pins pins(store_);
    ASSERT_EQ(Pin(object, pins, true), Outcome::kThere);
  }
  driver_.release_late = true;
  {
    Pins pins(store_);
    EXPECT_EQ(Pin(third, pins), Outcome::kWouldWait);  // both must be evicted, and the driver has not freed them
  }
  EXPECT_EQ(store_->Report().evictions, 2U);
  EXPECT_EQ(store_->Report().resident_slots, 1U);
  driver_.LetGo();
  EXPECT_EQ(store_->Report().resident_slots, 0U);
  Pins pins(store_);
  EXPECT_EQ(Pin(third, pins), Outcome::kThere);
}

TEST_F(StoreOfBuffers, BuffersThatTheDriverCannotReadStay) {
  const auto object = Make(40);
  {
    Pins pins(store_);
    ASSERT_EQ(Pin(object, pins, true), Outcome::kThere);
  }
  driver_.refuse_reads = true;
  Allow(0);
  EXPECT_FALSE(store_->CarryOut());
  EXPECT_EQ(store_->Report().resident_slots, 1U);
  EXPECT_EQ(store_->Report().evictions, 0U);
}

TEST_F(StoreOfBuffers, AFailedBufferUsesNoMemory) {
  const auto object = Make(40);
  driver_.refuse_buffers = true;
  Pins pins(store_);
  EXPECT_EQ(Pin(object, pins), Outcome::kFailed);
  EXPECT_EQ(error_, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  EXPECT_EQ(store_->Report().resident_slots, 0U);
  driver_.refuse_buffers = false;
  EXPECT_EQ(Pin(object, pins), Outcome::kThere);
}

TEST_F(StoreOfBuffers, ARequestAboveTheMaximumFailsAtOnce) {
  const auto object = Make(100);
  Allow(1, 1);
  Pins pins(store_);
  EXPECT_EQ(Pin(object, pins), Outcome::kNever);
  Allow(1, 0);  // the device's memory
  EXPECT_EQ(Pin(object, pins), Outcome::kWouldWait);
}

TEST_F(StoreOfBuffers, WaitersAreServedInOrder) {
  const auto pinned = Make(60), first = Make(60), second = Make(10);
  auto pins = std::make_unique<Pins>(store_);
  ASSERT_EQ(Pin(pinned, *pins), Outcome::kThere);
  std::thread one = Session(first, 1);
  AwaitWaiting(60 * kMiBytes);
  std::thread other = Session(second, 2);
  std::this_thread::sleep_for(milliseconds(20));  // long enough to proceed before the first, on a host that is not busy
  EXPECT_TRUE(order_.empty());
  pins.reset();
  one.join();
  other.join();
  EXPECT_EQ(order_, (std::vector<int>{1, 2}));
}

// A session that cannot proceed whatever others release blocks no other session.
TEST_F(StoreOfBuffers, AWaiterDoesNotBlockOthers) {
  int told = 0;
  store_->OnWait([this, &told] {
    const std::lock_guard lock(mutex_);
    ++told;
  });
  const auto large = Make(100), small = Make(50);
  std::thread waits = Session(large, 1);
  AwaitWaiting(100 * kMiBytes);
  std::this_thread::sleep_for(milliseconds(50));
  Session(small, 2).join();
  EXPECT_EQ(order_, std::vector<int>{2});
  EXPECT_EQ(store_->Report().need.count, 150 * kMiBytes);
  Allow(2);
  waits.join();
  EXPECT_EQ(order_, (std::vector<int>{2, 1}));
  EXPECT_EQ(store_->Report().must.count, 0U);
  EXPECT_EQ(told, 2) << "that it waits, and that it waits no more";
}

TEST_F(StoreOfBuffers, AStoppedSessionStopsWaiting) {
  const auto object = Make(100);
  std::thread waits([&] {
    cl_mem native = nullptr;
    cl_int error = CL_SUCCESS;
    const MemoryUse uses[] = {Of(object, native)};
    EXPECT_EQ(store_->Acquire(uses, nullptr, {.before_waiting = [] {}, .stop = &stop_}, error), Outcome::kEnded);
  });
  AwaitWaiting(100 * kMiBytes);
  stop_ = true;
  store_->Wake();
  waits.join();
  EXPECT_EQ(store_->Report().must.count, 0U);
}

TEST_F(StoreOfBuffers, AWaitWithALimitEnds) {
  const auto object = Make(40);
  Allow(0);
  cl_mem native = nullptr;
  const MemoryUse uses[] = {Of(object, native)};
  const BufferStore::Patience patience{.before_waiting = [] {}, .stop = &stop_, .at_most = milliseconds(1)};
  EXPECT_EQ(store_->Acquire(uses, nullptr, patience, error_), Outcome::kTooLong);
  EXPECT_EQ(store_->Report().must.count, 0U) << "it no longer waits";
}

TEST_F(StoreOfBuffers, KeepsItsBoundUnderManySessionsAndOrders) {
  constexpr int kSessions = 3, kRounds = 300;
  constexpr std::uint64_t kMostSlots = 2;
  std::vector<std::thread> sessions;
  for (int who = 0; who < kSessions; ++who)
    sessions.emplace_back([this, who] {
      std::vector<std::shared_ptr<Stored>> objects{Make(20), Make(30), Make(25)};
      int counts[3] = {};
      for (int round = 0; round < kRounds; ++round) {
        cl_mem natives[2] = {};
        cl_int error = CL_SUCCESS;
        const auto& a = objects[static_cast<std::size_t>(round + who) % 3];
        const auto& b = objects[static_cast<std::size_t>(round / 3 + who) % 3];
        const MemoryUse uses[] = {Of(a, natives[0]), Of(b, natives[1], round % 2 == 0)};
        const BufferStore::Patience patience{.before_waiting = [] {}, .stop = &stop_};
        ASSERT_EQ(store_->Acquire(uses, nullptr, patience, error), Outcome::kThere);
        ASSERT_LE(store_->Report().resident.count, kMostSlots * 64 * kMiBytes)
            << "no order has allowed that: session " << who << ", round " << round;
        Pins pins(store_);
        if (store_->Acquire(uses, &pins, {}, error) != Outcome::kThere) continue;
        std::byte& count =
            testing::FakeOpenCl::FirstByteOf(natives[1]);  // unchanged since the last round, wherever the object was
        int& expected = counts[static_cast<std::size_t>(round / 3 + who) % 3];
        if (round % 2 == 0) {
          EXPECT_EQ(std::to_integer<int>(count), expected % 256);
          count = std::byte(++expected % 256);
        }
        if (round % 50 != 49) continue;
        objects[static_cast<std::size_t>(round) % 3] = Make(20);
        counts[round % 3] = 0;
      }
    });
  std::thread orders([this] {
    for (std::uint32_t i = 0; i < 2000; ++i) {
      const std::uint32_t slots = i % (kMostSlots + 1);
      Allow(slots);
      const bool within = store_->CarryOut();
      EXPECT_TRUE(!within || store_->Report().resident_slots <= slots);
      std::this_thread::yield();
    }
    Allow(kMostSlots);
  });
  orders.join();
  for (std::thread& session : sessions) {
    while (!store_->CarryOut()) std::this_thread::yield();
    session.join();
  }
  EXPECT_EQ(store_->Report().made.count, 0U);
  EXPECT_EQ(store_->Report().resident_slots, 0U);
  EXPECT_EQ(driver_.alive, 0);
}

}  // namespace
}  // namespace weir::opencl
