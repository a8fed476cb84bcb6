// SPDX-License-Identifier: Apache-2.0
#include "shim/gl/meter.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "platform/clock.h"
#include "platform/process.h"
#include "tests/harness/wait_until.h"

namespace weir::shim {
namespace {

using proto::MeterKind;
using weir::testing::WaitUntil;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMs;

std::int64_t Clock(clockid_t clock) {
  timespec t{};
  EXPECT_EQ(::clock_gettime(clock, &t), 0);
  return static_cast<std::int64_t>(t.tv_sec) * kSecond + t.tv_nsec;
}
std::int64_t OwnCpuNs() { return Clock(CLOCK_THREAD_CPUTIME_ID); }

void BurnCpu(std::int64_t ns) {
  for (const std::int64_t until = OwnCpuNs() + ns; OwnCpuNs() < until;) {
  }
}

DeviceCpus CpusOf(std::initializer_list<int> cpus) {
  DeviceCpus device;
  for (const int cpu : cpus) device.mask[static_cast<std::size_t>(cpu) / 64] |= 1ULL << (cpu % 64);
  return device;
}

TEST(DeviceCpus, AreCountedOverTheWholeMask) {
  EXPECT_EQ(DeviceCpus{}.Count(), 0);
  EXPECT_FALSE(DeviceCpus{}.Known());
  EXPECT_EQ(CpusOf({0, 1, 63, 64, 1023}).Count(), 5);
  EXPECT_TRUE(CpusOf({1023}).Known());
}

TEST(SoftwareRenderers, AreKnownByTheirNames) {
  EXPECT_TRUE(IsSoftwareRenderer("llvmpipe (LLVM 15.0.6, 256 bits)"));
  EXPECT_TRUE(IsSoftwareRenderer("softpipe"));
  EXPECT_TRUE(IsSoftwareRenderer("ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero)), SwiftShader driver)"));
  for (const char* gpu : {"", "AMD Radeon RX 6600 (navi23)", "NVIDIA H200/PCIe/SSE2", "Mesa Intel(R) UHD Graphics"})
    EXPECT_FALSE(IsSoftwareRenderer(gpu)) << gpu;
}

// == Workers =========================================================================================================

/// A thread that has the name of a renderer's worker and burns the requested CPU time. Its destructor waits until the
/// kernel no longer lists the thread: joining returns a moment earlier, and the next test would find this worker.
class Worker {
 public:
  explicit Worker(const char* name) : thread_([this, name] { Run(name); }) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return named_; });
  }
  ~Worker() {
    Do([] {});
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    EXPECT_TRUE(WaitUntil([this] { return ::access(("/proc/self/task/" + std::to_string(tid_)).c_str(), F_OK) != 0; }));
  }

  /// Burns the time, then sleeps again.
  void Burn(std::int64_t ns) {
    Do([ns] { BurnCpu(ns); });
  }
  void Do(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !work_; });
  }
  /// All CPU time since the thread's start.
  std::int64_t CpuNs() {
    clockid_t clock{};
    EXPECT_EQ(::pthread_getcpuclockid(thread_.native_handle(), &clock), 0);
    return Clock(clock);
  }
  std::vector<int> Cpus() {
    std::vector<int> cpus;
    Do([&cpus] { cpus = platform::UsableCpus(); });
    return cpus;
  }

 private:
  void Run(const char* name) {
    ::pthread_setname_np(::pthread_self(), name);
    std::unique_lock lock(mutex_);
    tid_ = ::gettid();
    named_ = true;
    changed_.notify_all();
    for (;;) {
      changed_.wait(lock, [this] { return work_ || ending_; });
      if (!work_) return;
      work_();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool named_ = false;
  bool ending_ = false;
  pid_t tid_ = 0;
  std::thread thread_;
};

/// Checks that the meter's result lies between the differences of the workers' own clocks outside and inside its two
/// reads.
class Bracket {
 public:
  explicit Bracket(std::vector<Worker*> workers) : workers_(std::move(workers)) {}
  std::int64_t Sum() const {
    std::int64_t sum = 0;
    for (Worker* worker : workers_) sum += worker->CpuNs();
    return sum;
  }
  /// Runs `first` and `second`, which read the meter, with `between` in between, and checks the result of `second`.
  void Expect(const std::function<void()>& first, const std::function<void()>& between,
              const std::function<std::int64_t()>& second, int divisor) const {
    const std::int64_t before_first = Sum();
    first();
    const std::int64_t after_first = Sum();
    between();
    const std::int64_t before_second = Sum();
    const std::int64_t metered = second();
    const std::int64_t after_second = Sum();
    EXPECT_GE(metered, (before_second - after_first) / divisor);
    EXPECT_LE(metered, (after_second - before_first) / divisor);
  }

 private:
  std::vector<Worker*> workers_;
};

TEST(WorkerMeter, IsAbsentWithoutWorkers) {
  EXPECT_EQ(MakeWorkerMeter({}), nullptr);
  Worker almost("llvmpipe"), not_at_all("xllvmpipe-0");
  EXPECT_EQ(MakeWorkerMeter({}), nullptr);
}

TEST(WorkerMeter, ChargesTheCpuTimeOfItsWorkersDividedByTheCpusOfTheDevice) {
  const int cpu = platform::UsableCpus().front();
  for (const int divisor : {1, 2}) {
    Worker a("llvmpipe-0"), b("llvmpipe-1"), other("application");
    const Bracket bracket({&a, &b});
    std::unique_ptr<Meter> meter;
    const DeviceCpus cpus = divisor == 1 ? CpusOf({cpu}) : CpusOf({cpu, cpu + 1});
    bracket.Expect([&] { meter = MakeWorkerMeter(cpus); },
                   [&] {
                     a.Burn(6 * kMs);
                     b.Burn(2 * kMs);
                     other.Burn(5 * kMs);
                   },
                   [&] { return meter->AfterPresent(1 * kSecond); }, divisor);
    EXPECT_EQ(meter->kind(), MeterKind::kWorkerCpuTime);
    EXPECT_TRUE(meter->truthful());
    bracket.Expect([&] { meter->AfterPresent(1 * kSecond); }, [&] { b.Burn(3 * kMs); },
                   [&] { return meter->AfterPresent(1 * kSecond + 1); }, divisor);
  }
}

TEST(WorkerMeter, DoesNotChargeEarlierWork) {
  Worker worker("llvmpipe-0");
  worker.Burn(20 * kMs);
  const std::int64_t before = worker.CpuNs();
  const auto meter = MakeWorkerMeter(CpusOf({0}));
  ASSERT_NE(meter, nullptr);
  const std::int64_t metered = meter->AfterPresent(1);
  EXPECT_LE(metered, worker.CpuNs() - before);
}

TEST(WorkerMeter, ChargesAWorkerThatAppearsLaterFromItsBirth) {
  Worker first("llvmpipe-0");
  const auto meter = MakeWorkerMeter(CpusOf({0}));
  ASSERT_NE(meter, nullptr);
  meter->AfterPresent(1 * kSecond);
  Worker later("llvmpipe-1");
  later.Burn(5 * kMs);
  const std::int64_t soon = meter->AfterPresent(1 * kSecond + 500 * kMs);  // the meter searches once a second
  const std::int64_t least = later.CpuNs();
  const std::int64_t in_time = meter->AfterPresent(2 * kSecond);
  EXPECT_GE(in_time, least);
  EXPECT_LE(soon + in_time, first.CpuNs() + later.CpuNs());
  EXPECT_LT(meter->AfterPresent(3 * kSecond), 5 * kMs) << "and not a second time";
}

TEST(WorkerMeter, OutlivesItsWorkers) {
  auto first = std::make_unique<Worker>("llvmpipe-0");
  auto second = std::make_unique<Worker>("llvmpipe-1");
  const auto meter = MakeWorkerMeter(CpusOf({0}));
  ASSERT_NE(meter, nullptr);
  meter->AfterPresent(1);
  first.reset();
  second->Burn(2 * kMs);
  EXPECT_GE(meter->AfterPresent(2), 2 * kMs);
  second.reset();
  EXPECT_TRUE(WaitUntil([&] { return meter->AfterPresent(3) == 0; })) << "it uses a little more while it ends";
  EXPECT_EQ(meter->AfterPresent(3 * kSecond), 0);
  Worker third("llvmpipe-0");
  third.Burn(2 * kMs);
  EXPECT_GE(meter->AfterPresent(9 * kSecond), 2 * kMs) << "another context, other workers";
}

TEST(WorkerMeter, PinsWorkersToTheCpusOfTheDevice) {
  const int cpu = platform::UsableCpus().back();
  Worker first("llvmpipe-0"), application("application");
  const auto meter = MakeWorkerMeter(CpusOf({cpu}));
  ASSERT_NE(meter, nullptr);
  EXPECT_EQ(first.Cpus(), std::vector{cpu});
  Worker later("llvmpipe-1");
  meter->AfterPresent(1);
  meter->AfterPresent(5 * kSecond);
  EXPECT_EQ(later.Cpus(), std::vector{cpu});
  EXPECT_EQ(application.Cpus(), platform::UsableCpus());
}

// == The presenting thread ===========================================================================================

TEST(PresentCpuMeter, ChargesWhatThePresentingThreadUsedInPresent) {
  const auto meter = MakePresentCpuMeter(CpusOf({0, 1}));
  BurnCpu(4 * kMs);
  const std::int64_t outer = OwnCpuNs();
  meter->BeforePresent(0);
  const std::int64_t inner = OwnCpuNs();
  BurnCpu(4 * kMs);
  const std::int64_t inner_end = OwnCpuNs();
  const std::int64_t metered = meter->AfterPresent(0);
  const std::int64_t outer_end = OwnCpuNs();
  EXPECT_GE(metered, (inner_end - inner) / 2);
  EXPECT_LE(metered, (outer_end - outer) / 2);
  EXPECT_EQ(meter->AfterPresent(0), 0) << "between presents nothing is charged";
}

TEST(PresentCpuMeter, KeepsThreadsApartThatPresentAtOnce) {
  const auto meter = MakePresentCpuMeter(CpusOf({0}));
  Worker other("application");
  BurnCpu(30 * kMs);  // each thread has its own clock
  const std::int64_t mine = OwnCpuNs();
  meter->BeforePresent(0);
  other.Do([&] { meter->BeforePresent(0); });
  const std::int64_t metered = meter->AfterPresent(0);
  EXPECT_GE(metered, 0);
  EXPECT_LE(metered, OwnCpuNs() - mine);
  std::int64_t others = -1;
  other.Do([&] { others = meter->AfterPresent(0); });
  EXPECT_GE(others, 0);
  EXPECT_LE(others, other.CpuNs());
}

TEST(WallMeter, ChargesTheTimeBetweenCallAndReturn) {
  const auto meter = MakeWallMeter();
  EXPECT_EQ(meter->kind(), MeterKind::kWallClock);
  meter->BeforePresent(100);
  EXPECT_EQ(meter->AfterPresent(150), 50);
}

TEST(WallMeter, ChargesNothingForAPresentThatBeganUnderAnotherMeter) {
  const auto meter = MakeWallMeter();
  EXPECT_EQ(meter->AfterPresent(5'000 * kSecond), 0);
  meter->BeforePresent(5'000 * kSecond);
  EXPECT_EQ(meter->AfterPresent(5'000 * kSecond + 7), 7);
  EXPECT_EQ(meter->AfterPresent(6'000 * kSecond), 0);
}

TEST(WallMeter, KeepsThreadsApartThatPresentAtOnce) {
  const auto meter = MakeWallMeter();
  Worker other("application");
  meter->BeforePresent(100);
  other.Do([&] { meter->BeforePresent(900); });
  EXPECT_EQ(meter->AfterPresent(1'000), 900);
  std::int64_t others = 0;
  other.Do([&] { others = meter->AfterPresent(1'000); });
  EXPECT_EQ(others, 100);
}

// == Timestamps ======================================================================================================

/// A GPU behind a GL function table: executes submitted work in order, in real time.
struct FakeGpu {
  std::int64_t free_ns = 0;                       // when all submitted work will be done
  std::int64_t (*stamp)(std::int64_t) = nullptr;  // the timestamp for a true time; null: the true time
  bool silent = false;                            // no result ever arrives
  int finishes = 0;
  int waited_for = 0;  // results that were fetched before they were ready
  unsigned last_name = 0;
  std::map<unsigned, std::int64_t> stamps;  // by query: when the GPU reaches it
  bool batches = false;                     // a timestamp is taken when later work is submitted
  std::deque<unsigned> open;                // queries not submitted yet
  std::string renderer = "Fake GPU";

  void Submit(std::int64_t work_ns) {
    Flush();
    free_ns = std::max(free_ns, platform::NowNs()) + work_ns;
  }
  void Flush() {
    for (const unsigned query : std::exchange(open, {})) stamps[query] = std::max(platform::NowNs(), free_ns);
  }
};
FakeGpu* gpu;

GlFunctions FakeGl() {
  GlFunctions gl;
  gl.get_string = [](GlFunctions::GlEnum) { return reinterpret_cast<const unsigned char*>(gpu->renderer.c_str()); };
  gl.finish = [] {
    ++gpu->finishes;
    gpu->Flush();
    while (platform::NowNs() < gpu->free_ns) {
    }
  };
  gl.flush = [] { gpu->Flush(); };
  gl.gen_queries = [](int count, unsigned* names) {
    for (int i = 0; i < count; ++i) names[i] = ++gpu->last_name;
  };
  gl.query_counter = [](unsigned query, GlFunctions::GlEnum) {
    gpu->open.push_back(query);
    if (!gpu->batches) gpu->Flush();
  };
  gl.get_query_iv = [](unsigned query, GlFunctions::GlEnum what, int* value) {
    EXPECT_EQ(what, 0x8867u) << "only whether the result is there: any other question would wait for it";
    *value = !gpu->silent && platform::NowNs() >= gpu->stamps[query] ? 1 : 0;
  };
  gl.get_query_ui64 = [](unsigned query, GlFunctions::GlEnum, std::uint64_t* value) {
    const std::int64_t at = gpu->stamps[query];
    if (gpu->silent || platform::NowNs() < at) ++gpu->waited_for;
    *value = static_cast<std::uint64_t>(gpu->stamp != nullptr ? gpu->stamp(at) : at);
  };
  return gl;
}

class TimerMeter : public ::testing::Test {
 protected:
  TimerMeter() { gpu = &gpu_; }
  /// A frame with this much work. Returns the GPU time that the meter reports at its end.
  std::int64_t Frame(Meter& meter, std::int64_t work_ns) {
    gpu_.Submit(work_ns);
    meter.BeforePresent(platform::NowNs());
    return meter.AfterPresent(platform::NowNs());
  }
  FakeGpu gpu_;
};

constexpr int kCheckedFrames = 20;

TEST_F(TimerMeter, IsAbsentWithoutTimestamps) {
  GlFunctions gl = FakeGl();
  gl.query_counter = nullptr;
  EXPECT_EQ(MakeTimerMeter(gl), nullptr);
  gl = FakeGl();
  gl.finish = nullptr;
  EXPECT_EQ(MakeTimerMeter(gl), nullptr) << "it could not be checked";
  EXPECT_EQ(MakeTimerMeter({}), nullptr);
}

TEST_F(TimerMeter, StaysInUseOnAGpuWithTrueTimestamps) {
  const auto meter = MakeTimerMeter(FakeGl());
  ASSERT_NE(meter, nullptr);
  EXPECT_EQ(meter->kind(), MeterKind::kTimerQuery);
  meter->AfterPresent(platform::NowNs());  // the first frame begins
  std::int64_t used = 0;
  for (int i = 0; i < kCheckedFrames; ++i) used += Frame(*meter, 2 * kMs);
  EXPECT_TRUE(meter->truthful());
  EXPECT_GE(used, kCheckedFrames * 2 * kMs);
  EXPECT_EQ(gpu_.waited_for, 0);
}

TEST_F(TimerMeter, ChecksItsFirstFramesOnly) {
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) Frame(*meter, 10'000);
  const int finishes = gpu_.finishes;
  for (int i = 0; i < 50; ++i) Frame(*meter, 10'000);
  EXPECT_EQ(gpu_.finishes, finishes);
}

TEST_F(TimerMeter, IsNotRejectedWhenTheGpuFallsBehind) {
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  std::int64_t used = 0;
  for (int i = 0; i < kCheckedFrames; ++i) used += Frame(*meter, 10'000);
  for (int i = 0; i < 6; ++i) used += Frame(*meter, 4 * kMs);  // submission takes no time
  FakeGl().finish();
  used += Frame(*meter, 10'000);
  EXPECT_TRUE(meter->truthful());
  EXPECT_GE(used, 6 * 4 * kMs);
  EXPECT_EQ(gpu_.waited_for, 0);
}

// A driver takes a timestamp when it submits the batch that contains it. The gate and the pace delay a frame between
// its last timestamp and the driver's present, which submits the batch.
TEST_F(TimerMeter, IsNotRejectedWhenTheGateHoldsAFrameThatTheDriverHasNotSubmitted) {
  gpu_.batches = true;
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  const std::int64_t begin_ns = platform::NowNs();
  gpu_.Submit(2 * kMs);
  meter->BeforePresent(platform::NowNs());
  const std::int64_t held_until_ns = platform::NowNs() + 2 * (platform::NowNs() - begin_ns);
  while (platform::NowNs() < held_until_ns) {
  }
  gpu_.Flush();  // the present
  EXPECT_GE(meter->AfterPresent(platform::NowNs()), 2 * kMs);
  EXPECT_TRUE(meter->truthful());
}

TEST_F(TimerMeter, IsRejectedWhenItsSpanIsFarTooShortForTheDraining) {
  gpu_.stamp = [](std::int64_t at) { return at / 100; };  // for example only the last tile
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) Frame(*meter, 4 * kMs);
  EXPECT_FALSE(meter->truthful());
}

// The GPU first finishes another program's frame. The batch with the first timestamp waits for it, like the draws.
TEST_F(TimerMeter, IsNotRejectedWhenSomeFramesWaitForAnotherProgram) {
  gpu_.batches = true;
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) {
    if (i % 6 == 3) gpu_.free_ns = platform::NowNs() + 10 * kMs;
    Frame(*meter, kMs / 10);
  }
  EXPECT_TRUE(meter->truthful());
}

TEST_F(TimerMeter, IsRejectedWhenItsSpanIsLongerThanTheFrame) {
  gpu_.stamp = [](std::int64_t at) { return at * 3; };
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  Frame(*meter, 4 * kMs);
  EXPECT_FALSE(meter->truthful());
}

TEST_F(TimerMeter, IsRejectedWhenItsTimeRunsBackwards) {
  gpu_.stamp = [](std::int64_t at) { return -at; };
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  EXPECT_EQ(Frame(*meter, 1 * kMs), 0) << "what makes no sense is not charged";
  EXPECT_FALSE(meter->truthful());
}

TEST_F(TimerMeter, DoesNotChargeASpanThatIsLongerThanTheTimeSinceItBegan) {
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) Frame(*meter, kMs / 10);
  ASSERT_TRUE(meter->truthful());
  gpu_.stamp = [](std::int64_t at) { return at * 1000; };  // as from a query of another context
  std::int64_t charged = 0;
  for (int i = 0; i < 4; ++i) {
    charged += Frame(*meter, kMs);
    FakeGl().finish();
  }
  EXPECT_LT(charged, 8 * kMs);
  EXPECT_FALSE(meter->truthful());
}

TEST_F(TimerMeter, NeverWaitsForAResultAndChargesItWhenItComes) {
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) Frame(*meter, 10'000);
  gpu_.silent = true;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Frame(*meter, 100'000), 0);
  FakeGl().finish();
  gpu_.silent = false;
  EXPECT_GE(meter->AfterPresent(platform::NowNs()), 5 * 100'000);
  EXPECT_TRUE(meter->truthful());
  EXPECT_EQ(gpu_.waited_for, 0);
}

TEST_F(TimerMeter, LeavesAFullRingFullAndGoesOnWhenItEmpties) {
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) Frame(*meter, 10'000);
  const int finishes = gpu_.finishes;
  gpu_.silent = true;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Frame(*meter, 1'000), 0);
  EXPECT_EQ(gpu_.finishes, finishes);
  EXPECT_EQ(gpu_.waited_for, 0);
  FakeGl().finish();
  gpu_.silent = false;
  EXPECT_GT(Frame(*meter, 1'000), 0) << "what was outstanding";
  std::int64_t used = Frame(*meter, 1 * kMs);
  FakeGl().finish();
  used += Frame(*meter, 1'000);
  EXPECT_GE(used, 1 * kMs) << "frames are metered again";
  EXPECT_TRUE(meter->truthful());
}

TEST_F(TimerMeter, IsRejectedWhenNoResultComesForSeconds) {
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  gpu_.silent = true;
  Frame(*meter, 1'000);
  const std::int64_t now_ns = platform::NowNs();
  meter->AfterPresent(now_ns + 1 * kSecond);
  EXPECT_TRUE(meter->truthful());
  meter->AfterPresent(now_ns + 3 * kSecond);
  EXPECT_FALSE(meter->truthful());
}

// == The choice ======================================================================================================

TEST_F(TimerMeter, ComesAfterWorkersAndAfterSoftwareRenderersAndBeforeTheWallClock) {
  const GlFunctions gl = FakeGl();
  EXPECT_EQ(ChooseMeter(gl, {}, "auto")->kind(), MeterKind::kTimerQuery);
  GlFunctions without = gl;
  without.gen_queries = nullptr;
  EXPECT_EQ(ChooseMeter(without, {}, "auto")->kind(), MeterKind::kWallClock);
  EXPECT_EQ(ChooseMeter({}, {}, "auto")->kind(), MeterKind::kWallClock) << "no context at all";
  gpu_.renderer = "llvmpipe (LLVM 15.0.6, 256 bits)";
  EXPECT_EQ(ChooseMeter(gl, {}, "auto")->kind(), MeterKind::kPresentCpuTime) << "a software renderer without workers";
  Worker worker("llvmpipe-0");
  EXPECT_EQ(ChooseMeter(gl, {}, "auto")->kind(), MeterKind::kWorkerCpuTime);
  gpu_.renderer = "Fake GPU";
  EXPECT_EQ(ChooseMeter(gl, {}, "auto")->kind(), MeterKind::kWorkerCpuTime) << "workers tell more than a name";
  gpu_.renderer = "Small card (emulated)";
  EXPECT_EQ(ChooseMeter(gl, {}, "auto")->kind(), MeterKind::kTimerQuery) << "a CPU driver renders for an emulated GPU";
}

TEST_F(TimerMeter, CanBeForced) {
  const GlFunctions gl = FakeGl();
  for (const MeterKind kind : {MeterKind::kTimerQuery, MeterKind::kWallClock, MeterKind::kPresentCpuTime})
    EXPECT_EQ(ChooseMeter(gl, {}, NameOf(kind))->kind(), kind);
  EXPECT_EQ(ChooseMeter(gl, {}, "worker-cpu-time")->kind(), MeterKind::kTimerQuery) << "there are no workers";
  EXPECT_EQ(ChooseMeter(gl, {}, "no such meter")->kind(), MeterKind::kTimerQuery);
  Worker worker("llvmpipe-0");
  EXPECT_EQ(ChooseMeter(gl, {}, "worker-cpu-time")->kind(), MeterKind::kWorkerCpuTime);
  EXPECT_EQ(ChooseMeter(gl, {}, "wall-clock")->kind(), MeterKind::kWallClock);
}

}  // namespace
}  // namespace weir::shim
