// SPDX-License-Identifier: Apache-2.0
// What is charged for the work of a stream, on a driver whose device works when the test says so.
#include "shim/cuda/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/schedule/batch_bounds.h"
#include "shim/cuda/streams_fixture.h"
#include "tests/harness/cuda_device.h"

namespace weir::shim::cuda {

void* weir_cuda_driver[kFunctions];

namespace {

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
