// SPDX-License-Identifier: Apache-2.0
// The shim between a gate and a fake driver: the records of presents.
#include <gtest/gtest.h>

#include <cstring>
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

using weir::testing::GateHost;
using weir::testing::TempFolder;
using weir::testing::WaitUntil;

const unsigned char* FakeGetString(unsigned) { return reinterpret_cast<const unsigned char*>("Fake GPU \"7\""); }

weir_gl_proc FakeGetProc(const char* name) {
  return std::strcmp(name, "glGetString") == 0 ? reinterpret_cast<weir_gl_proc>(&FakeGetString) : nullptr;
}

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kLongPaceNs = 200'000 * kNsPerMs;  // far longer than a busy host pauses

// A driver with fences whose present waits for a vertical blank.
constexpr unsigned kAlreadySignaled = 0x911A, kTimeoutExpired = 0x911B;
unsigned fence_status = kAlreadySignaled;
int fences_alive = 0;

GlFunctions::GlSync FakeFenceSync(unsigned, unsigned) {
  ++fences_alive;
  return reinterpret_cast<GlFunctions::GlSync>(&fences_alive);
}
unsigned FakeClientWaitSync(GlFunctions::GlSync, unsigned, std::uint64_t) { return fence_status; }
void FakeDeleteSync(GlFunctions::GlSync) { --fences_alive; }
unsigned char FakeIsSync(GlFunctions::GlSync) { return 1; }

const unsigned char* StringOfADriverWithFences(unsigned name) {
  constexpr unsigned kGlVersion = 0x1F02;
  return name == kGlVersion ? reinterpret_cast<const unsigned char*>("4.6 Fake") : FakeGetString(name);
}

weir_gl_proc ProcOfADriverWithFences(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "glGetString") return reinterpret_cast<weir_gl_proc>(&StringOfADriverWithFences);
  if (wanted == "glFenceSync") return reinterpret_cast<weir_gl_proc>(&FakeFenceSync);
  if (wanted == "glClientWaitSync") return reinterpret_cast<weir_gl_proc>(&FakeClientWaitSync);
  if (wanted == "glDeleteSync") return reinterpret_cast<weir_gl_proc>(&FakeDeleteSync);
  if (wanted == "glIsSync") return reinterpret_cast<weir_gl_proc>(&FakeIsSync);
  return FakeGetProc(name);
}

class Shim : public ::testing::Test {
 protected:
  Shim() : path_(folder_ / "v"), host_(path_) {}

  static void Present(GlShim& shim, std::uint64_t surface) {
    weir_gl_present present{};
    shim.BeforePresent(present, surface, {nullptr, &FakeGetProc});
    shim.AfterPresent(present);
  }

  void SetPace(std::int64_t interval_ns) {
    host_.With([=](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = interval_ns}); });
  }

  /// Attaches by presenting a window that no test uses.
  void Attach(GlShim& shim) {
    EXPECT_TRUE(WaitUntil([&] {
      Present(shim, 0xA77AC4);
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }

  TempFolder folder_;
  const std::string path_;
  GateHost host_;
};

TEST_F(Shim, DescribesItsRendererAndMeterOnceAttached) {
  ProcessShim process(path_, "auto", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  const auto info = host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  EXPECT_EQ(info.renderer, "Fake GPU \"7\"");
  EXPECT_EQ(info.meter, proto::MeterKind::kWallClock) << "the fake has neither workers nor timestamps";
  EXPECT_EQ(info.api, proto::Api::kGl);
  EXPECT_FALSE(info.program.empty());
}

TEST_F(Shim, AFrameBeginsAtTheEndOfTheWindowsPreviousPresent) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  for (const std::uint64_t surface : {100, 200, 100, 200}) Present(shim, surface);
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0].begin_ns, frames[0].present_ns) << "the first one has no former";
  EXPECT_EQ(frames[1].begin_ns, frames[1].present_ns);
  EXPECT_EQ(frames[2].begin_ns, frames[0].end_ns);
  EXPECT_EQ(frames[3].begin_ns, frames[1].end_ns);
}

TEST_F(Shim, MoreWindowsThanItsTableHoldsAreRecordedNevertheless) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t surface = 1; surface <= 200; ++surface) Present(shim, surface);
  const auto drained = host_.Drain();
  EXPECT_EQ(drained.frames.size(), 400u);
  EXPECT_EQ(drained.bad, 0u);
}

TEST_F(Shim, ThreadsThatShareAWindowLeaveOnlyPlausibleRecords) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  Present(shim, 7);
  host_.SetAllowance(0);
  host_.SetMode(proto::GateMode::kGated);
  std::thread late([&] { Present(shim, 7); });  // calls present and waits at the gate
  ASSERT_TRUE(WaitUntil([this] { return host_.Waiting() == 1; }));
  const std::int64_t called_ns = platform::NowNs();
  host_.SetMode(proto::GateMode::kPaused);
  std::thread early([&] { Present(shim, 7); });
  ASSERT_TRUE(WaitUntil([this] { return host_.Waiting() == 2; }));
  host_.SetMode(proto::GateMode::kOpen);
  late.join();
  early.join();
  const auto drained = host_.Drain();
  EXPECT_EQ(drained.bad, 0u);
  ASSERT_EQ(drained.frames.size(), 3u);
  EXPECT_LE(std::min(drained.frames[1].present_ns, drained.frames[2].present_ns), called_ns);
}

TEST_F(Shim, ManyThreadsPresentAtOnce) {
  ProcessShim process(path_, "auto", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&shim, t] {
      for (int i = 0; i < 200; ++i) Present(shim, t % 2);
    });
  for (std::thread& thread : threads) thread.join();
  const auto drained = host_.Drain();
  EXPECT_EQ(drained.frames.size(), 800u);
  EXPECT_EQ(drained.bad + drained.lost, 0u);
  EXPECT_EQ(host_.InFlight(), 0u);
}

// -- Presents that block ---------------------------------------------------------------------------------------------

/// A program that uses no GPU time, as its meter says, and waits in each present.
class BlockingShim : public Shim {
 protected:
  BlockingShim() {
    fence_status = kAlreadySignaled;
    host_.SetAllowance(3'600'000 * kNsPerMs);
    host_.SetMode(proto::GateMode::kGated);
  }
  void Begin() { shim_.BeforePresent(present_ = {}, 7, {nullptr, &ProcOfADriverWithFences}); }
  void End(Duration blocks) {
    std::this_thread::sleep_for(blocks);
    shim_.AfterPresent(present_);
  }
  /// A whole frame. True: it was settled before its present.
  bool Frame(Duration blocks) {
    Begin();
    const bool settled = host_.InFlight() == 0;
    End(blocks);
    return settled;
  }
  /// Frames until the shim has seen often enough that the present blocks.
  void LetItSee() {
    EXPECT_TRUE(WaitUntil([this] {
      Frame(Duration{0});
      return !host_.Drain().frames.empty();
    }));
    int frames = 0;
    while (frames < 100 && !Frame(milliseconds(2))) ++frames;
    EXPECT_LE(frames, 30);
    EXPECT_GT(frames, 0);
    host_.Drain();
  }

  ProcessShim process_{path_, "present-cpu-time", proto::Api::kGl};
  GlShim shim_{process_};
  weir_gl_present present_{};
};

TEST_F(BlockingShim, ItsFrameIsSettledBeforeThePresentWaits) {
  LetItSee();
  Begin();
  EXPECT_EQ(host_.InFlight(), 0U) << "others may have the device";
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_TRUE(frames[0].present_follows);
  EXPECT_EQ(frames[0].tasks, 1U);
  EXPECT_EQ(frames[0].predicted_ns, 0) << "the prediction is one of the whole present";
  End(milliseconds(2));
  EXPECT_TRUE(host_.Drain().frames.empty()) << "it is recorded once";
  Begin();
  const auto next = host_.Drain().frames;
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].begin_ns, frames[0].end_ns);
  End(milliseconds(2));
  EXPECT_EQ(fences_alive, 0);
}

TEST_F(BlockingShim, AFrameWhoseWorkDoesNotEndIsSettledAfterThePresent) {
  LetItSee();
  fence_status = kTimeoutExpired;
  Begin();
  EXPECT_EQ(host_.InFlight(), 1U);
  End(milliseconds(2));
  EXPECT_EQ(host_.InFlight(), 0U);
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_FALSE(frames[0].present_follows);
  EXPECT_EQ(fences_alive, 0);
}

TEST_F(BlockingShim, InAnOpenGateNothingChanges) {
  LetItSee();
  host_.SetMode(proto::GateMode::kOpen);
  Begin();
  EXPECT_EQ(host_.InFlight(), 1U);
  End(milliseconds(2));
  ASSERT_EQ(host_.Drain().frames.size(), 1U);
}

TEST_F(BlockingShim, APresentThatReturnsAtOnceEndsIt) {
  LetItSee();
  EXPECT_TRUE(Frame(Duration{0}));
  int frames = 0;  // four, where nothing delays a present by a millisecond
  while (frames < 10'000 && Frame(Duration{0})) ++frames;
  EXPECT_GE(frames, 2);
  EXPECT_LT(frames, 10'000);
}

// -- Pace ------------------------------------------------------------------------------------------------------------

TEST_F(Shim, FramesKeepThePublishedPace) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  SetPace(20 * kNsPerMs);
  std::int64_t taken_ns = -platform::NowNs();
  for (int i = 0; i < 6; ++i) Present(shim, 1);
  taken_ns += platform::NowNs();
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 6u);
  EXPECT_EQ(frames[0].pace_ns, 0) << "the first frame has no beat to keep";
  for (std::size_t i = 1; i < 6; ++i) {
    taken_ns += frames[i].predicted_ns;
    EXPECT_EQ(frames[i].interval_ns, 20 * kNsPerMs);
    EXPECT_GT(frames[i].predicted_ns, 0);
    EXPECT_LE(frames[i].sync_ns + frames[i].pace_ns, frames[i].submit_ns - frames[i].present_ns);
  }
  // Each interval is at least 3/4 of the pace, less the prediction. The bound on the total is measured around all
  // frames: a pause of the machine can shorten one measured gap or lengthen a prediction.
  EXPECT_GE(taken_ns, 5 * 14 * kNsPerMs);
  EXPECT_LT(frames[5].gpu_ns, 10 * kNsPerMs) << "the delay is not charged";
}

TEST_F(Shim, EachWindowKeepsItsOwnPace) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  SetPace(30 * kNsPerMs);
  for (int i = 0; i < 4; ++i)
    for (const std::uint64_t window : {1, 2, 3}) Present(shim, window);
  int slept = 0;
  for (const auto& frame : host_.Drain().frames) slept += frame.pace_ns > 15 * kNsPerMs ? 1 : 0;
  EXPECT_LE(slept, 4) << "three windows in one thread wait at the same time, not one after the other";
}

TEST_F(Shim, ALateFrameStartDelaysTheProgramAfterItsPresent) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  const auto present = [&](proto::FrameStart start, int frames, bool other_window) {
    host_.With([=](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = 20 * kNsPerMs, .frame_start = start}); });
    for (int i = 0; i < frames; ++i) {
      if (other_window) Present(shim, 2);
      Present(shim, 1);
    }
    std::int64_t delayed_ns = 0;
    for (const auto& frame : host_.Drain().frames) {
      EXPECT_LE(frame.start_delay_ns, frame.present_ns - frame.begin_ns);
      delayed_ns += frame.start_delay_ns;
    }
    return delayed_ns;
  };
  EXPECT_EQ(present(proto::FrameStart::kEarly, 25, false), 0);
  EXPECT_GT(present(proto::FrameStart::kLate, 5, false), 0) << "it is known what frames take";
  EXPECT_EQ(host_.InFlight() + host_.Waiting(), 0u) << "nothing is in flight meanwhile";
  Present(shim, 2);
  Present(shim, 1);
  host_.Drain();
  EXPECT_EQ(present(proto::FrameStart::kLate, 3, true), 0) << "the thread may have to draw the other window";
}

TEST_F(Shim, ANewPaceAffectsASleepingFrameAtOnce) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  SetPace(kLongPaceNs);
  Present(shim, 1);
  std::thread sleeper([&] { Present(shim, 1); });
  EXPECT_EQ(host_.InFlight() + host_.Waiting(), 0u) << "who keeps its pace asks nothing of the device";
  SetPace(0);
  sleeper.join();
  Present(shim, 1);
  for (const auto& frame : host_.Drain().frames) EXPECT_LT(frame.pace_ns, kLongPaceNs / 2);
}

TEST_F(Shim, TheDaemonsDeathEndsEveryPace) {
  auto host = std::make_unique<GateHost>(folder_ / "w");
  ProcessShim paced_process(folder_ / "w", "wall-clock", proto::Api::kGl);
  GlShim paced(paced_process);
  EXPECT_TRUE(WaitUntil([&] {
    Present(paced, 1);
    return host->Processes() == 1;
  }));
  host->With([](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = kLongPaceNs}); });
  const std::int64_t start_ns = platform::NowNs();
  std::thread sleeper([&] { Present(paced, 1); });
  host.reset();
  sleeper.join();
  EXPECT_LT(platform::NowNs() - start_ns, kLongPaceNs / 2);
}

TEST_F(Shim, APausedVgpuStopsAPacedFrame) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  Attach(shim);
  host_.With(
      [](gate::VgpuGate& gate) { gate.Publish({.mode = proto::GateMode::kPaused, .frame_interval_ns = kNsPerMs}); });
  std::thread paused([&] { Present(shim, 1); });
  EXPECT_TRUE(WaitUntil([this] { return host_.Waiting() == 1; }));
  host_.SetMode(proto::GateMode::kOpen);
  paused.join();
}

// -- Synchronising ---------------------------------------------------------------------------------------------------

/// A driver that counts its calls. Fences are numbers; it does not know those of another context.
struct CountedGl {
  const char* renderer = "Fake GPU";
  const char* version = "4.6 fake";
  int finishes = 0, flushes = 0;
  std::uintptr_t fences_made = 0;
  std::vector<std::uintptr_t> waited{}, deleted{};
  bool knows_fences = true;
};
CountedGl counted_gl;

weir_gl_proc CountingGetProc(const char* name) {
  const auto as_proc = [](auto* function) { return reinterpret_cast<weir_gl_proc>(function); };
  const std::string wanted = name;
  if (wanted == "glGetString")
    return as_proc(+[](unsigned what) -> const unsigned char* {
      const char* text = what == 0x1F01 ? counted_gl.renderer : what == 0x1F02 ? counted_gl.version : "";
      return reinterpret_cast<const unsigned char*>(text);
    });
  if (wanted == "glFinish") return as_proc(+[] { ++counted_gl.finishes; });
  if (wanted == "glFlush") return as_proc(+[] { ++counted_gl.flushes; });
  if (wanted == "glFenceSync")
    return as_proc(+[](unsigned, unsigned) { return reinterpret_cast<GlFunctions::GlSync>(++counted_gl.fences_made); });
  if (wanted == "glIsSync")
    return as_proc(+[](GlFunctions::GlSync) -> unsigned char { return counted_gl.knows_fences ? 1 : 0; });
  if (wanted == "glClientWaitSync")
    return as_proc(+[](GlFunctions::GlSync fence, unsigned, std::uint64_t timeout_ns) -> unsigned {
      EXPECT_LE(timeout_ns, 1'000'000'000u) << "a bound on what a hung GPU costs";
      counted_gl.waited.push_back(reinterpret_cast<std::uintptr_t>(fence));
      return 0;
    });
  if (wanted == "glDeleteSync")
    return as_proc(
        +[](GlFunctions::GlSync fence) { counted_gl.deleted.push_back(reinterpret_cast<std::uintptr_t>(fence)); });
  return nullptr;
}

class Synchronising : public Shim {
 protected:
  /// Presents four frames at this pace.
  void Run(proto::FrameSync sync, std::int64_t interval_ns = 20 * kNsPerMs) {
    SetPace(0);
    ProcessShim process(path_, "wall-clock", proto::Api::kGl);
    GlShim shim(process);
    PresentUntilAttached(shim);
    const auto present = [&shim] { PresentCounted(shim); };
    host_.With([&](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = interval_ns, .frame_sync = sync}); });
    for (int i = 0; i < 4; ++i) present();
  }
  void SetUp() override { counted_gl = {}; }

  static void PresentCounted(GlShim& shim) {
    weir_gl_present pass{};
    shim.BeforePresent(pass, 1, {nullptr, &CountingGetProc});
    shim.AfterPresent(pass);
  }
  /// Attaching has a time limit, which a busy machine may exceed: a recorded frame of this shim proves success.
  void PresentUntilAttached(GlShim& shim) {
    host_.Settle();  // drops the frames of earlier shims
    EXPECT_TRUE(WaitUntil([&] {
      PresentCounted(shim);
      return !host_.Drain().frames.empty();
    }));
  }
};

TEST_F(Synchronising, AutoWaitsForThePresentFrameOnASoftwareRenderer) {
  counted_gl.renderer = "llvmpipe (LLVM 15.0.6, 256 bits)";
  Run(proto::FrameSync::kAuto);
  EXPECT_EQ(counted_gl.finishes, 4);
  EXPECT_EQ(counted_gl.fences_made, 0u);
}

TEST_F(Synchronising, AutoWaitsForThePreviousFrameOnHardware) {
  Run(proto::FrameSync::kAuto);
  EXPECT_EQ(counted_gl.finishes, 0);
  EXPECT_EQ(counted_gl.fences_made, 4u);
  EXPECT_EQ(counted_gl.waited, (std::vector<std::uintptr_t>{1, 2, 3}));
  EXPECT_EQ(counted_gl.deleted, counted_gl.waited);
  EXPECT_EQ(counted_gl.flushes, 4) << "what is queued is submitted before the frame sleeps";
}

TEST_F(Synchronising, AProgramThatNeverHasTimeToSpareIsNotSynchronised) {
  ProcessShim process(path_, "wall-clock", proto::Api::kGl);
  GlShim shim(process);
  SetPace(1);  // a pace of 1 ns that no frame can keep
  PresentUntilAttached(shim);
  for (int i = 0; i < 100; ++i) PresentCounted(shim);
  EXPECT_LE(counted_gl.fences_made, 21u);
  EXPECT_GE(counted_gl.fences_made, 1u);
}

TEST_F(Synchronising, AFenceOfAnotherContextIsNotUsed) {
  counted_gl.knows_fences = false;
  Run(proto::FrameSync::kFence);
  EXPECT_TRUE(counted_gl.waited.empty());
  EXPECT_TRUE(counted_gl.deleted.empty());
}

TEST_F(Synchronising, AContextWithoutFencesIsFlushed) {
  for (const char* version : {"3.1 fake", "OpenGL ES 2.0 fake", "", "what?"}) {
    counted_gl = {.version = version};
    Run(proto::FrameSync::kFence);
    EXPECT_EQ(counted_gl.fences_made, 0u) << version;
    EXPECT_EQ(counted_gl.flushes, 4) << version;
  }
}

TEST_F(Synchronising, DoesNothingWithoutModeOrPace) {
  Run(proto::FrameSync::kNone);
  Run(proto::FrameSync::kFinish, 0);
  EXPECT_EQ(counted_gl.finishes + counted_gl.flushes, 0);
  EXPECT_EQ(counted_gl.fences_made, 0u);
}

TEST(GlVersion, IsParsedFromDriversVersionStrings) {
  const auto expect = [](const char* text, bool es, int major, int minor) {
    const GlVersion version = ParseGlVersion(text);
    EXPECT_EQ(version.es, es) << text;
    EXPECT_EQ(version.major, major) << text;
    EXPECT_EQ(version.minor, minor) << text;
  };
  expect("4.5 (Compatibility Profile) Mesa 22.3.6", false, 4, 5);
  expect("OpenGL ES 3.2 Mesa 22.3.6", true, 3, 2);
  expect("OpenGL ES-CM 1.1 Mesa", true, 1, 1);
  expect("4.6.0 NVIDIA 550.54.14", false, 4, 6);
  for (const char* text : {"", "four", "4", "OpenGL ES"}) expect(text, false, 0, 0);
  EXPECT_TRUE((GlVersion{false, 4, 0}.AtLeast(3, 3)));
  EXPECT_FALSE((GlVersion{false, 3, 2}.AtLeast(3, 3)));
}

TEST_F(Shim, WithoutADaemonEveryPresentPasses) {
  ProcessShim process(folder_ / "nobody", "auto", proto::Api::kGl);
  GlShim shim(process);
  for (int i = 0; i < 10; ++i) Present(shim, 1);
  ProcessShim without_path_process("", "auto", proto::Api::kGl);
  GlShim without_path(without_path_process);
  for (int i = 0; i < 10; ++i) Present(without_path, 1);
  EXPECT_EQ(host_.Processes(), 0u);
}

}  // namespace
}  // namespace weir::shim
