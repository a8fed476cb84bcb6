// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/driver.h"

#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace weir::emulator::gl {
namespace {

/// Commands complete when a test says so.
class ManualPort final : public Port {
 public:
  struct Command {
    Duration work;
    Done done;
  };
  struct State {
    std::mutex mutex;
    std::deque<Command> commands;
    FrameCost cost{.fixed = milliseconds(4)};
    bool accepts = true;
    std::size_t depth = 1024;

    void CompleteNext(Instant began, Instant ended) {
      Done done;
      {
        const std::lock_guard lock(mutex);
        done = std::move(commands.front().done);
        commands.pop_front();
      }
      done(began, ended);
    }
    std::size_t Count() {
      const std::lock_guard lock(mutex);
      return commands.size();
    }
  };
  explicit ManualPort(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool Submit(Duration work, Done done) override {
    const std::lock_guard lock(state_->mutex);
    if (state_->accepts) state_->commands.push_back({work, std::move(done)});
    return state_->accepts;
  }
  bool Present(unsigned, Done done) override { return Submit({}, std::move(done)); }
  FrameCost cost() const override { return state_->cost; }
  std::size_t queue_depth() const override { return state_->depth; }
  bool drawn() const override { return true; }
  std::string name() const override { return "Card"; }

 private:
  const std::shared_ptr<State> state_;
};

constexpr Instant Ms(std::int64_t ms) { return Instant{milliseconds(ms)}; }

class GlDriver : public testing::Test {
 protected:
  GlDriver() : driver_([this] { return cpu_; }, [this] { return now_.load(); }) {
    driver_.Use(std::make_unique<ManualPort>(device_));
  }
  void Frame() {
    driver_.Drew();
    driver_.Swap(0);
  }

  std::atomic<Instant> now_{Ms(100)};
  Duration cpu_{};
  std::shared_ptr<ManualPort::State> device_ = std::make_shared<ManualPort::State>();
  Driver driver_;
  const int a_ = 0, b_ = 0;  // addresses stand for fences and contexts
};

TEST_F(GlDriver, NamesTheDeviceAsEmulated) { EXPECT_STREQ(driver_.renderer(), "Card (emulated)"); }

TEST_F(GlDriver, SubmitsTheCostOfAFrameOnce) {
  Frame();
  driver_.Drew();
  driver_.Flush();
  driver_.Drew();
  driver_.Flush();
  driver_.Swap(0);
  ASSERT_EQ(device_->Count(), 2u);
  EXPECT_EQ(device_->commands[1].work, milliseconds(4));
}

TEST_F(GlDriver, SwapReturnsWhileFewFramesAreUnderWay) {
  for (std::size_t i = 0; i < Driver::kFramesUnderWay; ++i) Frame();
  std::thread completer([&] {
    while (device_->Count() < Driver::kFramesUnderWay + 1) std::this_thread::yield();
    device_->CompleteNext(Ms(100), Ms(104));
  });
  Frame();  // returns when the first is complete
  completer.join();
  EXPECT_EQ(device_->Count(), Driver::kFramesUnderWay);
}

TEST_F(GlDriver, ABatchThatTheQueueHasNoRoomForWaits) {
  device_->depth = 1;
  Frame();
  std::atomic<bool> returned{false};
  std::thread completer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a flush that does not wait returns by then
    EXPECT_FALSE(returned);
    EXPECT_EQ(device_->Count(), 1U) << "the queue never holds more than its depth";
    device_->CompleteNext(Ms(100), Ms(104));
  });
  driver_.Drew();
  driver_.Flush();  // returns when the frame is complete
  returned = true;
  completer.join();
  EXPECT_EQ(device_->Count(), 1U);
}

TEST_F(GlDriver, ABatchThatWaitsForRoomGoesOnWhenTheEmulatorEnds) {
  device_->depth = 1;
  Frame();
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    driver_.Abandon("the emulator is gone");
  });
  driver_.Drew();
  driver_.Flush();
  ending.join();
  EXPECT_FALSE(driver_.active());
}

TEST_F(GlDriver, AFenceSignalsWhenTheWorkBeforeItIsDone) {
  driver_.Drew();
  driver_.Fence(&a_);
  ASSERT_EQ(device_->Count(), 1u);
  EXPECT_FALSE(driver_.Signaled(&a_));
  EXPECT_FALSE(driver_.WaitFence(&a_, 0));
  device_->CompleteNext(Ms(100), Ms(104));
  EXPECT_TRUE(driver_.Signaled(&a_));
  EXPECT_TRUE(driver_.WaitFence(&a_, 0));
}

TEST_F(GlDriver, AFenceWithNothingBeforeItIsSignaled) {
  driver_.Fence(&a_);
  EXPECT_TRUE(driver_.Signaled(&a_));
}

TEST_F(GlDriver, TimestampsAroundAFrameSpanItsTimeOnTheDevice) {
  driver_.Counter({&b_, 1});
  driver_.Drew();
  driver_.Counter({&b_, 2});
  EXPECT_EQ(device_->Count(), 0u) << "a timestamp submits nothing";
  std::uint64_t begin = 0, end = 0;
  EXPECT_EQ(driver_.Result({&b_, 1}, false, begin), Driver::Answer::kPending);
  device_->CompleteNext(Ms(110), Ms(114));
  ASSERT_EQ(driver_.Result({&b_, 1}, false, begin), Driver::Answer::kKnown);
  ASSERT_EQ(driver_.Result({&b_, 2}, false, end), Driver::Answer::kKnown);
  EXPECT_EQ(begin, 110'000'000u);
  EXPECT_EQ(end, 114'000'000u);
}

// The agent's meter takes the last timestamp of a frame before the gate.
TEST_F(GlDriver, AFrameWithTimestampsIsSubmittedByItsSwap) {
  driver_.Drew();
  driver_.Counter({&b_, 1});
  driver_.Counter({&b_, 2});
  EXPECT_EQ(device_->Count(), 0u);
  driver_.Swap(0);
  EXPECT_EQ(device_->Count(), 1u);
}

TEST_F(GlDriver, TimestampsOfAnotherThreadsUnsubmittedWorkAreNotOurs) {
  driver_.Drew();
  driver_.Counter({&b_, 1});
  std::thread([&] {
    std::uint64_t ns = 0;
    EXPECT_EQ(driver_.Result({&b_, 1}, true, ns), Driver::Answer::kNotOurs) << "it would wait for ever";
  }).join();
}

TEST_F(GlDriver, WorkBeforeATimestampIsSubmittedByAFence) {
  driver_.Drew();
  driver_.Counter({&b_, 1});
  driver_.Fence(&a_);
  EXPECT_EQ(device_->Count(), 1u);
  EXPECT_FALSE(driver_.Signaled(&a_));
}

TEST_F(GlDriver, ElapsedTimeIsTheBatchs) {
  driver_.BeginElapsed({&b_, 7});
  driver_.Drew();
  driver_.EndElapsed(&b_);
  EXPECT_EQ(device_->Count(), 0u);
  driver_.Flush();
  device_->CompleteNext(Ms(110), Ms(114));
  std::uint64_t ns = 0;
  ASSERT_EQ(driver_.Result({&b_, 7}, true, ns), Driver::Answer::kKnown);
  EXPECT_EQ(ns, 4'000'000u);
}

TEST_F(GlDriver, ElapsedTimeOfNothingIsZero) {
  Frame();
  driver_.BeginElapsed({&b_, 7});
  driver_.EndElapsed(&b_);
  device_->CompleteNext(Ms(100), Ms(104));
  std::uint64_t ns = 1;
  ASSERT_EQ(driver_.Result({&b_, 7}, true, ns), Driver::Answer::kKnown);
  EXPECT_EQ(ns, 0u);
}

// A program that polls a timestamp after which it draws nothing must not poll for ever.
TEST_F(GlDriver, APolledTimestampBecomesKnownWithoutAFlush) {
  driver_.Counter({&b_, 1});
  now_ = Ms(105);
  std::uint64_t ns = 0;
  ASSERT_EQ(driver_.Result({&b_, 1}, false, ns), Driver::Answer::kKnown);
  EXPECT_EQ(ns, 105'000'000u);
}

TEST_F(GlDriver, AFlushEndsTheBatchOfATimestampWithoutWork) {
  driver_.Counter({&b_, 1});
  now_ = Ms(105);
  driver_.Flush();
  now_ = Ms(130);
  driver_.Drew();
  driver_.Swap(0);
  std::uint64_t ns = 0;
  ASSERT_EQ(driver_.Result({&b_, 1}, false, ns), Driver::Answer::kKnown);
  EXPECT_EQ(ns, 105'000'000u);
}

TEST_F(GlDriver, QueriesOfOtherContextsAreNotOurs) {
  driver_.Counter({&b_, 1});
  std::uint64_t ns = 0;
  EXPECT_EQ(driver_.Result({&a_, 1}, false, ns), Driver::Answer::kNotOurs);
}

TEST_F(GlDriver, NothingWaitsOnceTheEmulatorIsGone) {
  Frame();
  driver_.Drew();
  driver_.Fence(&a_);
  std::thread goes([&] {
    while (device_->Count() < 2) std::this_thread::yield();
    driver_.Abandon("the emulated GPU is gone");
  });
  driver_.Finish();
  goes.join();
  EXPECT_FALSE(driver_.active());
  EXPECT_TRUE(driver_.Signaled(&a_));
  EXPECT_TRUE(driver_.WaitFence(&a_, ~std::uint64_t{0}));
  for (int i = 0; i < 10; ++i) Frame();
}

TEST_F(GlDriver, NothingWaitsOnceTheDeviceIsLostAndThatCanBeAsked) {
  driver_.Drew();
  driver_.Fence(&a_);
  EXPECT_FALSE(driver_.lost());
  driver_.Lose();
  EXPECT_TRUE(driver_.lost());
  EXPECT_TRUE(driver_.WaitFence(&a_, ~std::uint64_t{0}));
  for (int i = 0; i < 10; ++i) Frame();
}

TEST_F(GlDriver, ADeviceThatAcceptsNothingHoldsNothingUp) {
  device_->accepts = false;
  for (int i = 0; i < 10; ++i) Frame();
  driver_.Finish();
  EXPECT_EQ(device_->Count(), 0u);
}

}  // namespace
}  // namespace weir::emulator::gl
