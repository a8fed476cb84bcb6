// SPDX-License-Identifier: Apache-2.0
// What is charged for the work of a stream, on a driver whose device works when the test says so.
#include "shim/cuda/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/schedule/batch_bounds.h"
#include "tests/harness/cuda_device.h"

namespace weir::shim::cuda {

void* weir_cuda_driver[kFunctions];

namespace {

std::int64_t reported_ns = 0;
unsigned reported_made = 0, reported_known = 0;
std::int64_t settled_ns = 0;  // of it, what a question to settle has charged
unsigned used_devices = 0;

/// The green context of the test, if it makes one, and the primary context, which owns it.
CudaHandle green_context = nullptr, primary_context = nullptr;

/// A stream is never destroyed, like those of a program. All of them stay reachable.
Stream& NewStream(ContextClock& clock, CudaHandle handle) {
  static auto& all = *new std::vector<Stream*>;
  all.push_back(new Stream(clock, handle, ""));
  return *all.back();
}

class MeasuredStream : public ::testing::Test {
 protected:
  MeasuredStream() {
    reported_ns = 0;
    reported_made = reported_known = 0;
  }
  /// A call that puts `work_ns` on the device.
  void Call(double work_ns, bool ends_batch, Stream* stream = nullptr) {
    Stream& at = stream != nullptr ? *stream : stream_;
    at.Begin(ends_batch);
    device_.Launch(HandleOf(at), work_ns);
    at.End(ends_batch, static_cast<std::int64_t>(device_.now_ns));
  }
  /// `calls` short calls, the last of which ends the batch.
  void Batch(int calls, double work_ns, double between_ns) {
    for (int i = 1; i <= calls; ++i) {
      Call(work_ns, i == calls);
      device_.now_ns += between_ns;
    }
  }
  /// The device completes everything, and the stream has noticed it.
  void Settle() {
    device_.Finish();
    stream_.Await(false);
  }
  [[nodiscard]] double Charged() const { return static_cast<double>(reported_ns); }
  CudaHandle HandleOf(const Stream& stream) { return &stream == &stream_ ? handle_ : other_handle_; }

  FakeDevice device_;
  const CudaHandle handle_ = &reported_ns, other_handle_ = &reported_made;
  ContextClock clock_{device_.context};
  Stream& stream_ = NewStream(clock_, handle_);
};

constexpr double kUs = 1e3, kMs = 1e6;

TEST_F(MeasuredStream, ThatNeverRunsEmptyIsChargedItsWorkWithOneEventForABatch) {
  for (int i = 0; i < 100; ++i) {
    Batch(10, 100 * kUs, 80 * kUs);
  }
  Settle();
  EXPECT_NEAR(Charged(), device_.worked_ns, 0.02 * device_.worked_ns);
  EXPECT_LE(device_.records, 100 + 20);
}

TEST_F(MeasuredStream, ThatRunsEmptyIsNotChargedTheTimeBetweenItsCalls) {
  for (int i = 0; i < 200; ++i) Batch(10, 10 * kUs, 200 * kUs);
  Settle();
  EXPECT_NEAR(Charged(), device_.worked_ns, 0.02 * device_.worked_ns);
  EXPECT_LE(device_.records, 3 * 200 + 10);
}

TEST_F(MeasuredStream, CallsOfDifferentLengthAreChargedTheirWorkOnAverage) {
  for (int i = 0; i < 4000; ++i) {
    for (int call = 0; call < 10; ++call) {
      Call((call % 5 == 0 ? 50 : 10) * kUs, call == 9);
      device_.now_ns += 200 * kUs;
    }
  }
  Settle();
  EXPECT_NEAR(Charged(), device_.worked_ns, 0.05 * device_.worked_ns);
}

// Otherwise a vGPU that waits is charged for the wait, and waits for longer.
TEST_F(MeasuredStream, AWaitAtTheGateIsNotCharged) {
  for (int i = 0; i < 100; ++i) {
    for (int call = 1; call <= 10; ++call) {
      // The call that ends a batch waits at the gate for long enough that the device runs empty.
      if (call == 10 && i % 5 == 0) device_.now_ns += 50 * kMs;
      Call(100 * kUs, call == 10);
      device_.now_ns += 50 * kUs;
    }
  }
  Settle();
  EXPECT_NEAR(Charged(), device_.worked_ns, 0.1 * device_.worked_ns);
}

TEST_F(MeasuredStream, ALongCallIsChargedInFull) {
  for (int i = 0; i < 10; ++i) {
    Call(500 * kMs, true);
    device_.now_ns += 600 * kMs;
  }
  Settle();
  EXPECT_NEAR(Charged(), device_.worked_ns, 0.001 * device_.worked_ns);
}

TEST_F(MeasuredStream, WorkOfTwoStreamsAtOnceIsChargedOnce) {
  Stream& other = NewStream(clock_, other_handle_);
  for (int i = 0; i < 100; ++i) {
    Call(1 * kMs, true);
    Call(1 * kMs, true, &other);
    device_.now_ns += 1 * kMs;
  }
  Settle();
  other.Await(false);
  EXPECT_NEAR(Charged(), device_.worked_ns / 2, 0.02 * device_.worked_ns);
}

// With one mark for what was charged, the long kernels would be free.
TEST_F(MeasuredStream, LongWorkBesideShortWorkOfAnotherStreamIsCharged) {
  Stream& other = NewStream(clock_, other_handle_);
  for (int i = 0; i < 100; ++i) {
    Call(20 * kMs, true);
    for (int each = 0; each < 25; ++each) {
      Call(50 * kUs, true, &other);
      device_.now_ns += 1 * kMs;
    }
  }
  Settle();
  other.Await(false);
  EXPECT_NEAR(Charged(), 100 * (20 + 5 * 0.05) * kMs, 0.05 * 2000 * kMs);
}

// A clock that keeps few of the other stream's charges would take the whole window for charged.
TEST_F(MeasuredStream, LongWorkThatIsReadLateIsChargedAlthoughManyShortOnesWereChargedSince) {
  Stream& other = NewStream(clock_, other_handle_);
  Call(500 * kMs, true);
  device_.now_ns += 1 * kMs;
  const std::int64_t before_ns = reported_ns;
  for (int i = 0; i < 400; ++i) {
    Call(50 * kUs, true, &other);
    device_.now_ns += 1 * kMs;
  }
  other.Await(false);
  EXPECT_NEAR(static_cast<double>(reported_ns - before_ns), 400 * 50 * kUs, 400 * 5 * kUs);
  Settle();
  EXPECT_NEAR(Charged(), 500 * kMs, 1 * kMs);
}

TEST_F(MeasuredStream, IsReadAtTheEndOfABatchOfAnotherStream) {
  Stream& other = NewStream(clock_, other_handle_);
  Call(10 * kMs, true);
  Call(1 * kMs, true, &other);
  device_.now_ns += 20 * kMs;
  for (int i = 0; i < 2; ++i) {
    Call(1 * kMs, true, &other);
    device_.now_ns += 2 * kMs;
  }
  EXPECT_GE(Charged(), 10 * kMs);
}

TEST_F(MeasuredStream, IsNeverChargedLessThanNothing) {
  EXPECT_EQ(clock_.Charge({.begin_ns = 0, .end_ns = 10 * kMs}, 4 * kMs), 4 * kMs);
  EXPECT_EQ(clock_.Charge({.begin_ns = 5 * kMs, .end_ns = 2 * kMs}, -3 * kMs), 0);
}

// As a program that answers requests does.
TEST_F(MeasuredStream, ThePausesBetweenBurstsAreNotCharged) {
  const struct {
    int calls;
    double work_us, pause_ms;
  } kPrograms[] = {{50, 5, 10}, {20, 5, 10}, {3, 100, 10}, {10, 20, 10}, {200, 5, 3}};
  for (const auto& program : kPrograms) {
    SCOPED_TRACE(program.calls);
    device_.worked_ns = 0;
    const double before_ns = Charged();
    core::BatchBounds bounds;
    for (int burst = 0; burst < 400; ++burst) {
      for (int i = 0; i < program.calls; ++i) {
        const auto now = Instant{} + Duration{static_cast<std::int64_t>(device_.now_ns)};
        const bool ends = bounds.Ends(now, core::BatchBounds::Call::kLaunches);
        const std::int64_t known_ns = reported_ns;
        if (ends) bounds.Passed(now);
        Call(program.work_us * kUs, ends);
        if (ends) bounds.Settled(Duration{reported_ns - known_ns});
        device_.now_ns += 4 * kUs;
      }
      device_.now_ns += program.pause_ms * kMs;
    }
    Settle();
    EXPECT_NEAR(Charged() - before_ns, device_.worked_ns, 0.15 * device_.worked_ns);
  }
}

TEST_F(MeasuredStream, CallsOfTwoThreadsMayEndTheSameBatch) {
  for (int i = 0; i < 100; ++i) {
    stream_.Begin(true);
    stream_.Begin(true);
    device_.Launch(handle_, 100 * kUs);
    device_.Launch(handle_, 100 * kUs);
    stream_.End(true, static_cast<std::int64_t>(device_.now_ns));
    stream_.End(true, static_cast<std::int64_t>(device_.now_ns));
    device_.now_ns += (i % 2 == 0 ? 50 : 500) * kUs;
  }
  Settle();
  // One call's span covers the other's too.
  EXPECT_GE(Charged(), 0.9 * device_.worked_ns);
  EXPECT_LE(Charged(), 2 * device_.worked_ns);
}

TEST_F(MeasuredStream, CallsThatWereMadeWithoutADaemonAreNotCharged) {
  Batch(5, 100 * kUs, 200 * kUs);
  for (int i = 0; i < 10'000; ++i) {
    Call(1 * kMs, false);
    device_.now_ns += 1 * kMs;
  }
  const double worked_ns = device_.worked_ns;
  Batch(5, 100 * kUs, 200 * kUs);
  Settle();
  EXPECT_LE(Charged(), 0.05 * worked_ns);
}

TEST_F(MeasuredStream, EverySpanThatIsBegunBecomesKnown) {
  for (int i = 0; i < 300; ++i) Batch(1 + i % 7, (i % 11) * 30 * kUs, (i % 5) * 40 * kUs);
  Settle();
  stream_.Await(false);
  EXPECT_GT(reported_made, 0U);
  EXPECT_EQ(reported_made, reported_known);
}

TEST_F(MeasuredStream, AfterAResetOfItsContextIsMeasuredAgain) {
  Batch(5, 100 * kUs, 200 * kUs);
  Settle();
  device_.events.clear();  // the driver knows none of them any more
  device_.worked_ns = 0;
  const double before_ns = Charged();
  for (int i = 0; i < 50; ++i) Batch(5, 100 * kUs, 200 * kUs);
  Settle();
  EXPECT_NEAR(Charged() - before_ns, device_.worked_ns, 0.1 * device_.worked_ns);
}

TEST_F(MeasuredStream, OfAContextThatHasFailedAsksNoMore) {
  device_.fails = true;
  for (int i = 0; i < 1000; ++i) Call(1 * kMs, true);
  stream_.Await(true);
  EXPECT_EQ(device_.records, 0);
  EXPECT_EQ(reported_ns, 0);
}

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

bool DriverHas(Function function) { return weir_cuda_driver[function] != nullptr; }
CudaHandle OwnerOf(CudaHandle context) {
  return context != nullptr && context == green_context ? primary_context : context;
}

const weir_cuda_hooks* Hooks() {
  static const weir_cuda_hooks kHooks{WEIR_CUDA_HOOKS_VERSION,
                                      nullptr,
                                      nullptr,
                                      [](unsigned made, unsigned known, long long gpu_ns) {
                                        reported_made += made;
                                        reported_known += known;
                                        reported_ns += gpu_ns;
                                      },
                                      [] { return 1; },
                                      [] { settled_ns = reported_ns; },
                                      [](unsigned devices) { used_devices = devices; },
                                      nullptr,
                                      nullptr,
                                      nullptr};
  return &kHooks;
}

}  // namespace weir::shim::cuda
