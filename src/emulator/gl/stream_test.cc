// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/stream.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace weir::emulator::gl {
namespace {

constexpr Instant At(std::int64_t ms) { return Instant{milliseconds(ms)}; }
const FrameCost kFixed{.fixed = milliseconds(4)};
const FrameCost kMeasured{.fixed = std::nullopt, .factor = 0.5};

void Done(Batch& batch, Instant began, Instant ended) {
  batch.began = began;
  batch.ended = ended;
  batch.state = Batch::State::kDone;
}

TEST(GlStream, TakesAFixedCostOnceInAFrame) {
  Stream stream;
  EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4));
  EXPECT_EQ(stream.TakeWork(kFixed, {}), Duration{});
  stream.EndFrame(nullptr, {});
  EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4));
}

TEST(GlStream, AFrameOfAThreadThatNeverSwapsEndsWithAFlush) {
  Stream stream;
  for (int frame = 0; frame < 3; ++frame) {
    stream.Drew();
    EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4));
    stream.Flushed({});
    stream.Flushed({});
  }
}

TEST(GlStream, AFlushInAFrameThatIsSwappedCostsNothing) {
  Stream stream;
  stream.Drew();
  EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4));
  stream.Flushed({});
  EXPECT_EQ(stream.TakeWork(kFixed, {}), Duration{});  // the swap's
  stream.EndFrame(nullptr, {});
  stream.Drew();
  EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4));
  stream.Flushed({});
  stream.Drew();
  EXPECT_EQ(stream.TakeWork(kFixed, {}), Duration{});
}

TEST(GlStream, AThreadThatStopsSwappingRendersOffScreen) {
  Stream stream;
  stream.Drew();
  EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4));
  stream.EndFrame(nullptr, At(0));
  const Instant later = At(0) + Stream::kSwapsFor;
  stream.Flushed(later - nanoseconds(1));
  stream.Drew();
  EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4)) << "the frame that the next swap would show";
  stream.Flushed(later - nanoseconds(1));
  stream.Drew();
  EXPECT_EQ(stream.TakeWork(kFixed, {}), Duration{});
  for (int frame = 0; frame < 3; ++frame) {
    stream.Flushed(later);
    stream.Drew();
    EXPECT_EQ(stream.TakeWork(kFixed, {}), milliseconds(4)) << frame;
  }
}

TEST(GlStream, MultipliesMeasuredTimeByTheFactor) {
  Stream stream;
  EXPECT_EQ(stream.TakeWork(kMeasured, milliseconds(6)), milliseconds(3));
  EXPECT_EQ(stream.TakeWork(kMeasured, milliseconds(2)), milliseconds(1));
}

// A meter puts one timestamp before the first draw call and one after the last. The time for which the batch waits for
// other clients lies before both.
TEST(GlStream, TimestampsBeforeAndAfterTheDrawsAreTheBatchsBeginAndEnd) {
  Stream stream;
  const Timestamp begin = stream.Begin();
  stream.Drew();
  const BatchPtr batch = stream.Close(At(10), milliseconds(4));
  const Timestamp end = stream.End();
  EXPECT_FALSE(begin.Known());
  EXPECT_FALSE(end.Known());
  Done(*batch, At(30), At(34));
  EXPECT_EQ(begin.At(), At(30));
  EXPECT_EQ(end.At(), At(34));
}

TEST(GlStream, ABatchWithoutWorkIsDoneWithTheOneBeforeIt) {
  Stream stream;
  const BatchPtr batch = stream.Close(At(1), milliseconds(4));
  const Timestamp begin = stream.Begin();
  EXPECT_EQ(stream.Close(At(2), {}), nullptr);
  EXPECT_FALSE(begin.Known());
  Done(*batch, At(1), At(5));
  EXPECT_TRUE(begin.Known());
  EXPECT_EQ(begin.At(), At(5));
}

TEST(GlStream, ABatchWithoutWorkOnAnIdleDeviceIsDoneWhenItIsClosed) {
  Stream stream;
  const BatchPtr batch = stream.Close(At(1), milliseconds(4));
  Done(*batch, At(1), At(5));
  const Timestamp begin = stream.Begin();
  EXPECT_EQ(stream.Close(At(9), {}), nullptr);
  EXPECT_EQ(begin.At(), At(9));
  EXPECT_EQ(stream.End().At(), At(9));
}

TEST(GlStream, AFrameLeavesTheQueueWhenItIsDone) {
  Stream stream;
  std::vector<BatchPtr> frames;
  for (int i = 0; i < 3; ++i) {
    frames.push_back(stream.Close(At(i), milliseconds(4)));
    stream.EndFrame(frames.back(), At(i));
  }
  EXPECT_EQ(stream.Oldest(3), nullptr);
  EXPECT_EQ(stream.Oldest(2), frames[0]);
  Done(*frames[0], At(0), At(4));
  EXPECT_EQ(stream.Oldest(2), nullptr);
}

// Law: on a device that runs batches in order, the timestamps of a stream never go back.
RC_GTEST_PROP(GlStream, TimestampsNeverGoBack, ()) {
  Stream stream;
  std::vector<Timestamp> stamps;
  Instant now{}, free_at{};
  const auto close = [&](Duration work) {
    if (const BatchPtr batch = stream.Close(now, work)) {
      const Instant began = std::max(now, free_at);
      Done(*batch, began, free_at = began + work);
    }
  };
  for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5))) {
    now += microseconds(*rc::gen::inRange(0, 3000));
    if (step == 0) stamps.push_back(stream.drawn() ? (close(milliseconds(1)), stream.End()) : stream.Begin());
    if (step == 1) stream.Drew();
    if (step == 2 && stream.drawn()) close(milliseconds(1));
    if (step == 3) close({});
    if (step == 4) close(milliseconds(2)), stream.EndFrame(stream.last(), now);
  }
  close({});
  Instant last{};
  for (const Timestamp& stamp : stamps) {
    RC_ASSERT(stamp.Known());
    RC_ASSERT(stamp.At() >= last);
    last = stamp.At();
  }
}

}  // namespace
}  // namespace weir::emulator::gl
