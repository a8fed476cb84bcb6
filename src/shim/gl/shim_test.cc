// SPDX-License-Identifier: Apache-2.0
// The shim between a gate and a fake driver: what is recorded around a present.
#include "shim/gl/shim.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

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

class Shim : public ::testing::Test {
 protected:
  Shim() : path_(folder_ / "v"), host_(path_) {}

  static void Present(GlShim& shim, std::uint64_t surface) {
    weir_gl_present present{};
    shim.BeforePresent(present, surface, &FakeGetProc);
    shim.AfterPresent(present);
  }

  /// Attaches with presents of a window that no test uses.
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
  GlShim shim(path_, "auto");
  Attach(shim);
  const auto info = host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  EXPECT_EQ(info.renderer, "Fake GPU \"7\"");
  EXPECT_EQ(info.meter, proto::MeterKind::kWallClock) << "the fake has neither workers nor timestamps";
  EXPECT_EQ(info.api, proto::Api::kGl);
  EXPECT_FALSE(info.program.empty());
}

TEST_F(Shim, AFrameBeginsWhereTheFormerPresentOfTheSameWindowEnded) {
  GlShim shim(path_, "wall-clock");
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
  GlShim shim(path_, "wall-clock");
  Attach(shim);
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t surface = 1; surface <= 200; ++surface) Present(shim, surface);
  const auto drained = host_.Drain();
  EXPECT_EQ(drained.frames.size(), 400u);
  EXPECT_EQ(drained.bad, 0u);
}

TEST_F(Shim, ThreadsThatShareAWindowLeaveOnlyRecordsThatCanBeTrue) {
  GlShim shim(path_, "wall-clock");
  Attach(shim);
  Present(shim, 7);
  host_.SetAllowance(0);
  host_.SetMode(proto::GateMode::kGated);
  std::thread late([&] { Present(shim, 7); });  // has called present already, and waits
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
  GlShim shim(path_, "auto");
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

TEST_F(Shim, WithoutADaemonEveryPresentPasses) {
  GlShim shim(folder_ / "nobody", "auto");
  for (int i = 0; i < 10; ++i) Present(shim, 1);
  GlShim without_path("", "auto");
  for (int i = 0; i < 10; ++i) Present(without_path, 1);
  EXPECT_EQ(host_.Processes(), 0u);
}

}  // namespace
}  // namespace weir::shim
