// SPDX-License-Identifier: Apache-2.0
// The shim between a gate and a fake driver: the batches of threads that present nothing.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shim/gl/gl_shim.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::shim {
namespace {

using testing::GateHost;
using testing::TempFolder;

/// A driver whose fences are numbers, and whose timestamps are `clock_ns`, which a test moves.
struct FakeDriver {
  std::string version = "4.6 fake";
  std::uintptr_t fences = 0;
  std::vector<std::uintptr_t> awaited{};
  int flushes = 0, finishes = 0;
  std::uint64_t clock_ns = 1'000'000;
  std::array<std::uint64_t, 1024> queries{};
  std::array<const void*, 1024> owners{};  // contexts in which queries were made
  unsigned queries_made = 1;
  const void* context = nullptr;  // the current one
  int errors = 0;                 // uses of another context's queries
};
FakeDriver fake;

weir_gl_proc FakeDriverProc(const char* name) {
  const auto as_proc = [](auto* function) { return reinterpret_cast<weir_gl_proc>(function); };
  const std::string_view wanted = name;
  if (wanted == "glGetString")
    return as_proc(+[](unsigned what) -> const unsigned char* {
      return reinterpret_cast<const unsigned char*>(what == 0x1F02 ? fake.version.c_str() : "Fake GPU");
    });
  if (wanted == "glFlush") return as_proc(+[] { ++fake.flushes; });
  if (wanted == "glFinish") return as_proc(+[] { ++fake.finishes; });
  if (wanted == "glFenceSync")
    return as_proc(+[](unsigned, unsigned) { return reinterpret_cast<GlFunctions::GlSync>(++fake.fences); });
  if (wanted == "glIsSync") return as_proc(+[](GlFunctions::GlSync) -> unsigned char { return 1; });
  if (wanted == "glClientWaitSync")
    return as_proc(+[](GlFunctions::GlSync fence, unsigned, std::uint64_t) -> unsigned {
      fake.awaited.push_back(reinterpret_cast<std::uintptr_t>(fence));
      return 0x911A;
    });
  if (wanted == "glDeleteSync") return as_proc(+[](GlFunctions::GlSync) {});
  if (wanted == "glGenQueries")
    return as_proc(+[](int count, unsigned* names) {
      for (int i = 0; i < count; ++i) {
        fake.owners.at(fake.queries_made) = fake.context;
        names[i] = fake.queries_made++;
      }
    });
  if (wanted == "glQueryCounter")
    return as_proc(+[](unsigned query, unsigned) {
      fake.errors += fake.owners.at(query) != fake.context ? 1 : 0;
      fake.queries.at(query) = fake.clock_ns;
    });
  if (wanted == "glGetQueryObjectiv") return as_proc(+[](unsigned, unsigned, int* value) { *value = 1; });
  if (wanted == "glGetQueryObjectui64v")
    return as_proc(+[](unsigned query, unsigned, std::uint64_t* value) { *value = fake.queries.at(query); });
  return nullptr;
}

class Batches : public ::testing::Test {
 protected:
  Batches() : host_(folder_ / "v") { fake = {}; }

  /// A call of a thread that presents nothing, during which the device works for `gpu`.
  static void Call(GlShim& shim, Duration gpu = {}, const void* context = kContext, weir_gl_call call = WEIR_GL_ENDS) {
    weir_gl_present pass{};
    fake.context = context;
    fake.clock_ns += static_cast<std::uint64_t>(gpu.count());
    shim.BeforeBatchCall(pass, call, {context, &FakeDriverProc});
    shim.AfterBatchCall(pass);
  }
  static void Present(GlShim& shim, const void* context = kContext) {
    weir_gl_present pass{};
    fake.context = context;
    shim.BeforePresent(pass, 7, {context, &FakeDriverProc});
    shim.AfterPresent(pass);
  }
  /// A call that ends a batch.
  static void Batch(GlShim& shim, Duration gpu = {}, const void* context = kContext) {
    std::this_thread::sleep_for(core::BatchBounds::kLeast);
    Call(shim, gpu, context);
  }
  void Attach(GlShim& shim) {
    EXPECT_TRUE(testing::WaitUntil([&] {
      Batch(shim);
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }
  proto::MeterKind MeterInUse() {
    return host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Info().meter; });
  }
  bool Draws() {
    return host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Draws(); });
  }

  static constexpr int kContextObject = 0, kOtherObject = 0;
  static constexpr const void* kContext = &kContextObject;
  static constexpr const void* kOther = &kOtherObject;
  TempFolder folder_;
  GateHost host_;
};

TEST_F(Batches, ABatchIsATaskOfAProcessThatDoesNotDraw) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  EXPECT_FALSE(Draws());
  for (int i = 0; i < 3; ++i) Batch(shim);
  const auto drained = host_.Drain();
  EXPECT_EQ(drained.bad, 0U);
  ASSERT_EQ(drained.frames.size(), 3U);
  EXPECT_EQ(drained.frames[2].tasks, 1U);
  EXPECT_EQ(drained.frames[2].begin_ns, drained.frames[1].end_ns);
  EXPECT_EQ(host_.InFlight(), 0U);
}

TEST_F(Batches, BatchesOfAProcessThatPresentsAreNoTasks) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  Present(shim);
  Batch(shim);
  EXPECT_TRUE(Draws());
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].tasks, 1U);
  EXPECT_EQ(frames[1].tasks, 0U) << "the rate is that of the frames";
  EXPECT_NE(frames[0].surface, frames[1].surface);
}

TEST_F(Batches, ABatchWaitsAtTheGate) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  host_.SetAllowance(0);
  host_.SetMode(proto::GateMode::kGated);
  std::thread late([&] { Batch(shim); });
  EXPECT_TRUE(testing::WaitUntil([this] { return host_.Waiting() == 1; }));
  host_.SetMode(proto::GateMode::kOpen);
  late.join();
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_GT(frames[0].wait_ns, 0);
}

TEST_F(Batches, ABatchKeepsNoPace) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  host_.With([](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = 9'000'000'000}); });
  for (int i = 0; i < 3; ++i) Batch(shim);
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 3U);
  for (const auto& frame : frames) EXPECT_EQ(frame.pace_ns, 0);
}

TEST_F(Batches, AtMostTwoAreUnderWay) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  const std::uintptr_t first = fake.fences;
  fake.awaited.clear();
  for (int i = 0; i < 3; ++i) Batch(shim);
  EXPECT_EQ(fake.awaited, (std::vector<std::uintptr_t>{first, first + 1, first + 2}));
}

TEST_F(Batches, AContextWithoutFencesIsFinished) {
  fake.version = "2.1 fake";
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  fake.finishes = 0;
  for (int i = 0; i < 3; ++i) Batch(shim);
  EXPECT_EQ(fake.finishes, 3);
  EXPECT_EQ(fake.fences, 0U);
}

TEST_F(Batches, DispatchesAreFlushedWhereTheyEndABatch) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  fake.flushes = 0;
  constexpr int kDispatches = 4 * core::BatchBounds::kDispatchesMost;
  for (int i = 0; i < kDispatches; ++i) Call(shim, {}, kContext, WEIR_GL_DISPATCH);
  const auto batches = host_.Drain().frames.size();
  EXPECT_GE(batches, 4U);
  EXPECT_LT(batches, static_cast<std::size_t>(kDispatches));
  EXPECT_EQ(static_cast<std::size_t>(fake.flushes), batches);
}

/// Every nanosecond between timestamps is charged, whichever calls end a batch.
TEST_F(Batches, WorkOfTinyBatchesIsChargedInTheEnd) {
  ProcessShim process(folder_ / "v", "timer-query", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  for (int i = 0; i < 60; ++i) Batch(shim, microseconds(10));  // the meter's own checks are over
  host_.Drain();
  for (int i = 0; i < 1600; ++i) Call(shim, microseconds(10));
  std::int64_t gpu_ns = 0;
  std::size_t batches = 0;
  Batch(shim);
  for (const auto& frame : host_.Drain().frames) gpu_ns += frame.gpu_ns, ++batches;
  EXPECT_EQ(gpu_ns, 16'000'000);
  EXPECT_GE(batches, 1600U / 16);
  EXPECT_LT(batches, 1600U);
}

TEST_F(Batches, EachContextHasTimestampsOfItsOwn) {
  ProcessShim process(folder_ / "v", "timer-query", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  for (int i = 0; i < 100; ++i) {
    Batch(shim, microseconds(100), kContext);
    Batch(shim, microseconds(100), kOther);
  }
  EXPECT_EQ(MeterInUse(), proto::MeterKind::kTimerQuery);
  EXPECT_GT(fake.queries_made, 130U) << "queries belong to a context";
  EXPECT_EQ(fake.errors, 0);
}

TEST_F(Batches, WorkWhileTheDaemonWasAwayIsNotChargedInAnyContext) {
  auto host = std::make_unique<GateHost>(folder_ / "w");
  ProcessShim process(folder_ / "w", "timer-query", proto::Api::kGl);
  GlShim shim(process);
  std::int64_t gpu_ns = 0;
  const auto is_attached = [&](const void* context) {
    Batch(shim, {}, context);
    const auto frames = host->Drain().frames;
    for (const auto& frame : frames) gpu_ns += frame.gpu_ns;
    return !frames.empty();
  };
  for (const void* context : {kContext, kOther}) EXPECT_TRUE(testing::WaitUntil([&] { return is_attached(context); }));
  host.reset();
  EXPECT_TRUE(testing::WaitUntil([&] {
    Batch(shim);
    return !process.attached();
  }));
  for (const void* context : {kContext, kOther})
    for (int i = 0; i < 5; ++i) Call(shim, milliseconds(4), context);
  host = std::make_unique<GateHost>(folder_ / "w");
  gpu_ns = 0;
  for (const void* context : {kOther, kContext, kOther, kContext, kOther})
    EXPECT_TRUE(testing::WaitUntil([&] { return is_attached(context); }));
  EXPECT_EQ(gpu_ns, 0);
  EXPECT_EQ(fake.errors, 0);
}

// A program with two windows may draw each in a context of its own.
TEST_F(Batches, APresentInAnotherContextUsesNoTimestampsOfTheFirst) {
  ProcessShim process(folder_ / "v", "timer-query", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  Present(shim);
  EXPECT_EQ(MeterInUse(), proto::MeterKind::kTimerQuery);
  for (int i = 0; i < 3; ++i) {
    Present(shim, kOther);
    Present(shim);
  }
  EXPECT_EQ(fake.errors, 0);
  EXPECT_EQ(MeterInUse(), proto::MeterKind::kWallClock);
}

TEST_F(Batches, MoreContextsThanItsTableHoldsAreRecordedNevertheless) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  const std::array<char, 2 * kBatchLoops> contexts{};
  for (int round = 0; round < 2; ++round)
    for (const char& context : contexts) Call(shim, {}, &context);
  const auto drained = host_.Drain();
  EXPECT_EQ(drained.frames.size(), 2 * contexts.size());
  EXPECT_EQ(drained.bad, 0U);
}

// Programs of CUDA have a stream for each of many small tasks.
TEST_F(Batches, CallsOfManyContextsInTurnDoNotEachPassTheGate) {
  ProcessShim process(folder_ / "v", "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  constexpr std::size_t kRounds = 40;
  const std::array<char, 18> contexts{};
  // Calls that follow each other soon are one batch. A busy host delays many of them in some attempts, and not in all.
  bool few = false;
  for (int attempt = 0; attempt < 30 && !few; ++attempt) {
    for (std::size_t round = 0; round < kRounds; ++round)
      for (const char& context : contexts) Call(shim, {}, &context);
    const auto drained = host_.Drain();
    few = drained.frames.size() < kRounds * contexts.size() / 2;
    EXPECT_EQ(drained.bad, 0U);
  }
  EXPECT_TRUE(few);
}

TEST_F(Batches, WithoutADaemonEveryCallPasses) {
  ProcessShim process(folder_ / "nobody", "auto", proto::Api::kGl);
  GlShim shim(process);
  for (int i = 0; i < 10; ++i) Batch(shim);
  EXPECT_EQ(host_.Processes(), 0U);
}

}  // namespace
}  // namespace weir::shim
