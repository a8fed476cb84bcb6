// SPDX-License-Identifier: Apache-2.0
// Streams by their handles, in several contexts and threads, and what is charged when one of these ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "shim/cuda/streams.h"
#include "shim/cuda/streams_fixture.h"
#include "tests/harness/cuda_device.h"

namespace weir::shim::cuda {
namespace {

/// The rest of a program: streams by their handles.
class StreamsOfContexts : public ::testing::Test {
 protected:
  StreamsOfContexts() {
    reported_ns = settled_ns = 0;
    for (const CudaHandle context : {device_.own_context, other_context_}) ForgetContext(context);
  }
  /// A call that ends a batch.
  void Call(Stream& stream, CudaHandle handle, double work_ns) {
    const InContext in(stream.context(), device_.context);
    stream.Begin(true);
    device_.Launch(handle, work_ns);
    stream.End(true, static_cast<std::int64_t>(device_.now_ns));
  }
  FakeDevice device_;
  int other_ = 0, stream_ = 0;
  const CudaHandle other_context_ = &other_, handle_ = &stream_;
  const CudaHandle legacy_ = reinterpret_cast<CudaHandle>(std::uintptr_t{1});
};

TEST_F(StreamsOfContexts, AreFoundByTheirHandlesInAnyContext) {
  device_.owners[handle_] = other_context_;
  Stream* const found = FindStream(handle_, false, device_.context);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->context(), other_context_);
  for (const CudaHandle current : {other_context_, device_.own_context, CudaHandle{}}) {
    device_.context = current;
    EXPECT_EQ(FindStream(handle_, false, device_.context), found);
  }
  EXPECT_EQ(FindStream(nullptr, false, device_.context), nullptr) << "a default stream needs a context";
}

TEST_F(StreamsOfContexts, DefaultStreamsAreThoseOfTheCurrentContext) {
  Stream* const own = FindStream(nullptr, false, device_.context);
  Stream* const of_thread = FindStream(nullptr, true, device_.context);
  device_.context = other_context_;
  Stream* const other = FindStream(nullptr, false, device_.context);
  ASSERT_TRUE(own != nullptr && of_thread != nullptr && other != nullptr);
  EXPECT_EQ(own->context(), device_.own_context);
  EXPECT_EQ(other->context(), other_context_);
  EXPECT_NE(of_thread, own);
  device_.context = device_.own_context;
  EXPECT_EQ(FindStream(nullptr, false, device_.context), own);
  EXPECT_EQ(FindStream(nullptr, true, device_.context), of_thread);
}

TEST_F(StreamsOfContexts, DefaultStreamsOfAGreenContextAreItsOwnAndHaveTheClockOfThePrimaryOne) {
  green_context = other_context_;
  primary_context = device_.own_context;
  for (const bool per_thread : {false, true}) {
    device_.context = device_.own_context;
    Stream* const own = FindStream(nullptr, per_thread, device_.context);
    device_.context = green_context;
    Stream* const green = FindStream(nullptr, per_thread, device_.context);
    ASSERT_TRUE(own != nullptr && green != nullptr);
    EXPECT_NE(own, green);
    EXPECT_EQ(green->context(), device_.own_context);
  }
  device_.owners[handle_] = green_context;
  Stream* const named = FindStream(handle_, false, device_.context);
  device_.owners[handle_] = device_.own_context;
  EXPECT_EQ(FindStream(handle_, false, &other_), named) << "a stream by its handle is the primary context's";
  green_context = primary_context = nullptr;
}

TEST_F(StreamsOfContexts, AHandleThatIsUsedAgainIsAnotherStream) {
  device_.owners[handle_] = other_context_;
  Stream* const first = FindStream(handle_, false, device_.context);
  const StreamKey key = KeyOf(handle_, false);
  device_.owners[handle_] = device_.own_context;
  ForgetStream(key);
  Stream* const second = FindStream(handle_, false, device_.context);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(second->context(), device_.own_context);
}

TEST_F(StreamsOfContexts, WorkInAStreamOfAnotherContextIsMeasured) {
  device_.owners[handle_] = other_context_;
  Stream& stream = *FindStream(handle_, false, device_.context);
  for (int i = 0; i < 100; ++i) {
    {
      const InContext in(stream.context(), device_.context);
      stream.Begin(true);
    }
    EXPECT_EQ(device_.context, device_.own_context) << "the program's call runs in its context";
    device_.Launch(handle_, 1 * kMs);
    const InContext in(stream.context(), device_.context);
    stream.End(true, static_cast<std::int64_t>(device_.now_ns));
    device_.now_ns += 2 * kMs;
  }
  stream.Await(false);
  EXPECT_NEAR(static_cast<double>(reported_ns), device_.worked_ns, 0.02 * device_.worked_ns);
}

// Otherwise the times of two devices that work at once look like a meter that contradicts the wall clock.
TEST_F(StreamsOfContexts, OfSeveralDevicesAreThoseOfAProgramThatUsesSoMany) {
  int third = 0;
  device_.devices[other_context_] = device_.devices[&third] = 1;
  FindStream(nullptr, false, device_.context);
  EXPECT_EQ(used_devices, 1U);
  device_.context = other_context_;
  FindStream(nullptr, false, device_.context);
  EXPECT_EQ(used_devices, 2U);
  device_.context = &third;
  FindStream(nullptr, false, device_.context);
  EXPECT_EQ(used_devices, 2U) << "two contexts of one device";
  for (const CudaHandle context : {other_context_, device_.context}) ForgetContext(context);
  device_.context = device_.own_context;
  ForgetContext(device_.context);
  FindStream(nullptr, false, device_.context);
  EXPECT_EQ(used_devices, 1U) << "contexts that have ended do not count";
}

// The driver may crash, or another event may have the handle of one that has ended.
TEST_F(StreamsOfContexts, EventsOfAContextThatHasEndedAreNotUsed) {
  device_.owners[handle_] = device_.own_context;
  for (int lives = 0; lives < 3; ++lives) {
    const double before_ns = static_cast<double>(reported_ns);
    device_.worked_ns = 0;
    for (int i = 0; i < 50; ++i) {
      for (const CudaHandle handle : {handle_, legacy_})
        Call(*FindStream(handle, false, device_.context), handle, 1 * kMs);
      device_.now_ns += 3 * kMs;
    }
    Settle(device_.context, {});
    EXPECT_NEAR(static_cast<double>(reported_ns) - before_ns, device_.worked_ns / 2, 0.05 * device_.worked_ns);
    ForgetContext(device_.context);
    device_.EndContext(device_.context);
    EXPECT_EQ(device_.uses_of_ended, 0);
  }
}

TEST_F(StreamsOfContexts, AThreadThatHoldsAStreamOfAContextThatHasEndedUsesNoEventOfIt) {
  Stream& held = *FindStream(nullptr, false, device_.context);
  Call(held, nullptr, 1 * kMs);
  held.Begin(true);
  ForgetContext(device_.context);
  device_.EndContext(device_.context);
  held.End(true, static_cast<std::int64_t>(device_.now_ns));
  held.Await(true);
  EXPECT_EQ(device_.uses_of_ended, 0);
  EXPECT_NE(FindStream(nullptr, false, device_.context), &held);
}

TEST_F(StreamsOfContexts, OfAGreenContextThatHasEndedOnlyItsDefaultStreamsEnd) {
  green_context = other_context_;
  primary_context = device_.own_context;
  Stream* const own = FindStream(nullptr, false, device_.context);
  device_.context = green_context;
  Stream& green = *FindStream(nullptr, false, device_.context);
  device_.context = device_.own_context;
  Call(green, legacy_, 1 * kMs);
  ForgetContext(green_context);
  EXPECT_EQ(FindStream(nullptr, false, device_.context), own);
  device_.now_ns += 1 * kMs;
  Settle(device_.context, {});
  EXPECT_NEAR(static_cast<double>(settled_ns), 1 * kMs, 0.1 * kMs) << "the primary context has its events";
  green_context = primary_context = nullptr;
}

// The program may make no other call.
TEST_F(StreamsOfContexts, TheLastBatchesOfAllStreamsAreChargedAfterAWait) {
  device_.owners[handle_] = device_.own_context;
  for (const CudaHandle handle : {handle_, legacy_})
    Call(*FindStream(handle, false, device_.context), handle, 10 * kMs);
  device_.now_ns += 5 * kMs;
  Settle(device_.context, {});
  EXPECT_EQ(settled_ns, 0) << "the device still works";
  device_.now_ns += 10 * kMs;
  Settle(device_.context, {});
  EXPECT_NEAR(static_cast<double>(settled_ns), 10 * kMs, 0.1 * kMs) << "both have worked at the same time";
}

TEST_F(StreamsOfContexts, TheLastBatchesOfAContextThatEndsAreAwaitedAndCharged) {
  device_.owners[handle_] = device_.own_context;
  device_.question_ns = 0.1 * kMs;
  for (const CudaHandle handle : {handle_, legacy_})
    Call(*FindStream(handle, false, device_.context), handle, 10 * kMs);
  Settle(device_.context, {.awaits = true});
  EXPECT_NEAR(static_cast<double>(settled_ns), 10 * kMs, 1 * kMs);
}

TEST_F(StreamsOfContexts, StreamsThatHaveEndedDoNotCountForTheLimit) {
  std::vector<char> places(3000);
  for (char& place : places) {
    device_.owners[&place] = device_.own_context;
    Stream* const stream = FindStream(&place, false, device_.context);
    ASSERT_NE(stream, nullptr);
    Call(*stream, &place, 1 * kMs);
    device_.now_ns += 2 * kMs;
    ForgetStream(KeyOf(&place, false));
  }
  Settle(device_.context, {});
  EXPECT_NEAR(static_cast<double>(reported_ns), device_.worked_ns, 0.02 * device_.worked_ns);
}

TEST_F(StreamsOfContexts, AThreadsDefaultStreamIsNotThatOfAThreadThatHasEnded) {
  std::vector<StreamKey> keys;
  for (int i = 0; i < 1100; ++i) {
    std::thread([&] {
      keys.push_back(KeyOf(nullptr, true));
      EXPECT_NE(FindStream(nullptr, true, device_.context), nullptr) << "streams of ended threads do not count";
    }).join();
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

// The thread's stream cannot be named any more, so nothing else can record the end of its last calls.
TEST_F(StreamsOfContexts, TheLastCallsOfAThreadsDefaultStreamAreChargedWhenTheThreadEnds) {
  const CudaHandle per_thread = reinterpret_cast<CudaHandle>(std::uintptr_t{2});
  const auto work = [&] {
    Stream& stream = *FindStream(nullptr, true, device_.context);
    Call(stream, per_thread, 1 * kMs);
    device_.now_ns += 2 * kMs;
    for (int i = 0; i < 3; ++i) {
      stream.Begin(false);
      device_.Launch(per_thread, 10 * kMs);
      stream.End(false, 0);
    }
  };
  std::thread([&] {
    work();
    device_.Finish();
  }).join();
  EXPECT_NEAR(static_cast<double>(settled_ns), 31 * kMs, 1 * kMs);
  std::thread(work).join();
  device_.Finish();
  Settle(device_.context, {});
  EXPECT_NEAR(static_cast<double>(settled_ns), 62 * kMs, 2 * kMs) << "the device works on when the thread has ended";
}

}  // namespace
}  // namespace weir::shim::cuda
