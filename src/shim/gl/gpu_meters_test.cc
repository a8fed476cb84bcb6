// SPDX-License-Identifier: Apache-2.0
// The meter that reads timestamps of a GPU, and the choice between all meters.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "platform/clock.h"
#include "shim/gl/gl_meters.h"
#include "tests/harness/renderer_worker.h"

namespace weir::shim {
namespace {

using proto::MeterKind;
using testing::kMs;
using testing::kSecond;
using testing::Worker;

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

char gl_version[300];

TEST(GlFunctions, KnowsOfEachContextWhetherItHasFences) {
  GlFunctions gl;
  gl.get_string = [](GlFunctions::GlEnum) { return reinterpret_cast<const unsigned char*>(gl_version); };
  gl.fence_sync = [](GlFunctions::GlEnum, unsigned) -> GlFunctions::GlSync { return nullptr; };
  gl.is_sync = [](GlFunctions::GlSync) -> unsigned char { return 0; };
  gl.client_wait_sync = [](GlFunctions::GlSync, unsigned, std::uint64_t) -> GlFunctions::GlEnum { return 0; };
  gl.delete_sync = [](GlFunctions::GlSync) {};
  const auto has = [&gl](const std::string& version) {
    version.copy(gl_version, sizeof gl_version - 1);
    gl_version[version.size()] = 0;
    return gl.HasFences();
  };
  EXPECT_FALSE(has("")) << "no context";
  for (int i = 0; i < 2; ++i) {  // a context may have the address of an earlier one's text
    EXPECT_TRUE(has("4.5 (Compatibility Profile) Mesa 22.3.6"));
    EXPECT_TRUE(has("4.5 (Compatibility Profile) Mesa 22.3.6"));
    EXPECT_FALSE(has("3.1 Mesa 22.3.6"));
    EXPECT_TRUE(has("OpenGL ES 3.2 Mesa 22.3.6"));
    EXPECT_FALSE(has("OpenGL ES 2.0 Mesa 22.3.6"));
    EXPECT_TRUE(has("4.5 " + std::string(200, 'a')));
    EXPECT_FALSE(has("3.1 " + std::string(200, 'a')));
    EXPECT_FALSE(has(""));
  }
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

TEST_F(TimerMeter, IsNotRejectedWhereEachFrameWaitsForThreeFramesOfOtherPrograms) {
  gpu_.batches = true;
  const auto meter = MakeTimerMeter(FakeGl());
  meter->AfterPresent(platform::NowNs());
  for (int i = 0; i < kCheckedFrames; ++i) {
    gpu_.free_ns = platform::NowNs() + 6 * kMs;
    Frame(*meter, 2 * kMs);
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

// -- The choice ------------------------------------------------------------------------------------------------------

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
