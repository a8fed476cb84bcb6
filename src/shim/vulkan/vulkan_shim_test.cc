// SPDX-License-Identifier: Apache-2.0
// Vulkan's part of the shim between a gate and calls that a test makes in the layer's place.
#include "shim/vulkan/vulkan_shim.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "platform/clock.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::shim {
namespace {

using testing::GateHost;
using testing::TempFolder;
using testing::WaitUntil;

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr int kDeviceObject = 0;
constexpr weir_vulkan_device kGpu{&kDeviceObject, "Fake GPU", 0, 1};

class VulkanCalls : public ::testing::Test {
 protected:
  VulkanCalls() : path_(folder_ / "v"), host_(path_) {}

  void Present(std::uint64_t window = 7, const weir_vulkan_device& device = kGpu) {
    weir_shim_pass pass{};
    shim_.BeforePresent(pass, window, device);
    shim_.AfterPresent(pass);
  }
  void Work(weir_vulkan_work work = WEIR_VULKAN_SUBMITS, const weir_vulkan_device& device = kGpu) {
    weir_shim_pass pass{};
    shim_.BeforeWork(pass, work, device);
    shim_.AfterWork(pass);
  }
  void Attach() {
    EXPECT_TRUE(WaitUntil([this] {
      Present();
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }
  /// Submits until one is a batch: the first ones may precede a first present.
  void AttachBySubmits() {
    EXPECT_TRUE(WaitUntil([this] {
      Work();
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }
  void Batch(weir_vulkan_work work = WEIR_VULKAN_SUBMITS) {
    std::this_thread::sleep_for(core::BatchBounds::kLeast);
    Work(work);
  }
  gate::ProcessInfo Info() {
    return host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  }

  TempFolder folder_;
  const std::string path_;
  GateHost host_;
  ProcessShim process_{path_, "auto", proto::Api::kVulkan};
  VulkanShim shim_{process_};
};

/// As GL that draws through Vulkan: what the shim calls with its lock held allocates memory.
class AllocatingApi final : public Api {
 public:
  explicit AllocatingApi(ProcessShim& process) : process_(process) {}
  void Meet(const void*) override {
    met_ = process_.ClaimMemory(4096);
    static_cast<void>(process_.UsedMemory());
  }
  [[nodiscard]] std::string Renderer() const override { return "zink"; }
  [[nodiscard]] bool Software() const override { return false; }
  std::unique_ptr<Meter> ChooseMeter(const DeviceCpus&, const std::string&) override { return MakeWallMeter(); }
  [[nodiscard]] bool met() const { return met_; }

 private:
  ProcessShim& process_;
  bool met_ = false;
};

TEST_F(VulkanCalls, MemoryMayBeClaimedWhileTheShimCallsTheApi) {
  AllocatingApi api(process_);
  EXPECT_TRUE(WaitUntil([&] {
    weir_shim_pass pass{};
    process_.BeforePresent(api, pass, 1, &kDeviceObject, &kGpu);
    process_.AfterPresent(api, pass);
    return api.met();
  }));
}

TEST_F(VulkanCalls, TheDaemonIsToldOfVulkanAndItsMeter) {
  EXPECT_EQ(shim_.Need(), WEIR_VULKAN_NEEDS_NOTHING);
  Attach();
  EXPECT_EQ(Info().api, proto::Api::kVulkan);
  EXPECT_EQ(Info().renderer, "Fake GPU");
  EXPECT_EQ(Info().meter, proto::MeterKind::kTimerQuery);
  EXPECT_EQ(shim_.Need(), WEIR_VULKAN_NEEDS_TIME);
}

TEST_F(VulkanCalls, WhatTheLayerReportsIsChargedToTheNextFrame) {
  Attach();
  shim_.ReportTime(0, 0, 2 * kNsPerMs);
  shim_.ReportTime(0, 0, 3 * kNsPerMs);
  Present();
  Present();
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].gpu_ns, 5 * kNsPerMs);
  EXPECT_EQ(frames[1].gpu_ns, 0);
}

TEST_F(VulkanCalls, TimestampsThatContradictTheWallClockAreRejected) {
  Attach();
  shim_.ReportTime(0, 0, 3'600'000 * kNsPerMs);
  Present();
  EXPECT_EQ(Info().meter, proto::MeterKind::kWallClock);
  EXPECT_EQ(shim_.Need(), WEIR_VULKAN_NEEDS_WAITS);
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].gpu_ns, 0) << "an impossible time is not charged";
  shim_.ReportTime(0, 0, kNsPerMs);  // the layer may still report
  Present();
}

TEST_F(VulkanCalls, TwoDevicesMayWorkForTwiceTheTime) {
  Attach();
  shim_.UseDevices(2);
  shim_.UseDevices(1);  // one has ended, and its work may still be reported
  shim_.ReportTime(0, 0, 190 * kNsPerMs);
  Present();
  EXPECT_EQ(Info().meter, proto::MeterKind::kTimerQuery);
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].gpu_ns, 190 * kNsPerMs);
}

/// Also if the first call then is one of another device.
TEST_F(VulkanCalls, WorkWhileTheDaemonWasAwayIsNotCharged) {
  auto host = std::make_unique<GateHost>(folder_ / "w");
  ProcessShim process(folder_ / "w", "auto", proto::Api::kVulkan);
  VulkanShim shim(process);
  const auto present = [&](const weir_vulkan_device& device) {
    weir_shim_pass pass{};
    shim.BeforePresent(pass, 7, device);
    shim.AfterPresent(pass);
  };
  const auto attach = [&](const weir_vulkan_device& device) {
    std::vector<gate::HostFrame> frames;
    EXPECT_TRUE(WaitUntil([&] {
      present(device);
      frames = host->Drain().frames;
      return !frames.empty();
    }));
    return frames;
  };
  attach(kGpu);
  host.reset();
  EXPECT_TRUE(WaitUntil([&] {
    present(kGpu);
    return !process.attached();
  }));
  shim.ReportTime(0, 0, 5 * kNsPerMs);
  host = std::make_unique<GateHost>(folder_ / "w");
  const auto frames = attach({&host, "Fake GPU", 0, 1});
  EXPECT_EQ(frames[0].gpu_ns, 0);
}

TEST_F(VulkanCalls, FramesOfUnknownGpuTimeStayCharged) {
  Attach();
  shim_.ReportTime(2, 2, 4 * kNsPerMs);
  Present();
  const std::int64_t at_rest_ns = host_.ReservedNs();
  shim_.ReportTime(2, 0, 0);
  Present();
  const std::int64_t one_ns = host_.ReservedNs();
  EXPECT_GT(one_ns, at_rest_ns);
  shim_.ReportTime(2, 1, kNsPerMs);
  Present();
  EXPECT_GT(host_.ReservedNs(), one_ns) << "half of the first frame is known";
  shim_.ReportTime(0, 3, 7 * kNsPerMs);
  Present();
  EXPECT_EQ(host_.ReservedNs(), at_rest_ns) << "this frame submitted nothing, and the earlier ones are known";
}

TEST_F(VulkanCalls, TasksOfUnknownGpuTimeStayCharged) {
  AttachBySubmits();
  const std::int64_t at_rest_ns = host_.ReservedNs();
  shim_.ReportTime(1, 1, 4 * kNsPerMs);
  Batch();
  shim_.ReportTime(1, 0, 0);
  Batch();
  EXPECT_GT(host_.ReservedNs(), at_rest_ns);
  shim_.ReportTime(0, 1, 4 * kNsPerMs);
  Batch(WEIR_VULKAN_WAITS);
  EXPECT_EQ(host_.ReservedNs(), at_rest_ns);
}

/// A device that is lost never reports.
TEST_F(VulkanCalls, TheNumberOfFramesOfUnknownGpuTimeIsBounded) {
  Attach();
  shim_.ReportTime(1, 1, kNsPerMs);
  Present();
  std::int64_t most_ns = 0;
  for (int i = 0; i < 64; ++i) {
    shim_.ReportTime(1, 0, 0);
    Present();
    most_ns = host_.ReservedNs();
  }
  for (int i = 0; i < 200; ++i) {
    shim_.ReportTime(1, 0, 0);
    Present();
  }
  EXPECT_LE(host_.ReservedNs(), most_ns);
}

TEST_F(VulkanCalls, SubmitsOfAProgramThatPresentsAreFree) {
  Attach();
  for (int i = 0; i < 5; ++i) Batch();
  Batch(WEIR_VULKAN_WAITS);
  EXPECT_TRUE(host_.Drain().frames.empty());
}

TEST_F(VulkanCalls, SubmitsOfAProgramThatNeverPresentsAreTasks) {
  AttachBySubmits();
  for (int i = 0; i < 3; ++i) {
    Batch();
    Batch(WEIR_VULKAN_WAITS);
  }
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 6U);
  for (std::size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].tasks, i % 2 == 0 ? 1U : 0U) << i;
  EXPECT_FALSE(host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Draws(); }));
}

TEST_F(VulkanCalls, ASubmitWaitsAtTheGate) {
  AttachBySubmits();
  host_.SetAllowance(0);
  host_.SetMode(proto::GateMode::kGated);
  std::thread late([this] { Batch(); });
  EXPECT_TRUE(WaitUntil([this] { return host_.Waiting() == 1; }));
  host_.SetMode(proto::GateMode::kOpen);
  late.join();
}

/// zink draws GL's frames through Vulkan.
TEST_F(VulkanCalls, CallsOfAGlThatDrawsThroughVulkanAreNotCountedAgain) {
  AttachBySubmits();
  process_.GlIsOnVulkan();
  Batch();
  Present();
  EXPECT_TRUE(host_.Drain().frames.empty());
}

TEST_F(VulkanCalls, AnImageIsHandedOutWhenTheOneBeforeItMayBePresented) {
  constexpr std::uint64_t kLong = 3'600'000'000'000;
  Attach();
  host_.With([](gate::VgpuGate& gate) { gate.Publish({.frame_interval_ns = 40 * kNsPerMs}); });
  for (int i = 0; i < 2; ++i) Present();
  EXPECT_EQ(shim_.BeforeImage(7, 0, kLong), 0U) << "the program holds no image";
  EXPECT_EQ(shim_.BeforeImage(7, 1, 0), 0U) << "the program doesn't wait";
  Present();
  // Each frame is at least 3/4 of the interval long, less the prediction. A pause of the machine makes the wait
  // shorter.
  const std::int64_t before_ns = platform::NowNs();
  const std::uint64_t waited_ns = shim_.BeforeImage(7, 1, kLong);
  const std::int64_t after_ns = platform::NowNs();
  EXPECT_LE(waited_ns, static_cast<std::uint64_t>(after_ns - before_ns));
  const auto frames = host_.Drain().frames;
  const std::int64_t since_ns = after_ns - frames.back().end_ns;
  EXPECT_GE(since_ns + frames.back().predicted_ns + 10 * kNsPerMs, 30 * kNsPerMs);
  // A call waits for one interval at most. On a busy host a present takes longer, and one call is not enough.
  EXPECT_TRUE(WaitUntil([this] { return shim_.BeforeImage(7, 1, kLong) == 0; }));
  std::uint64_t more_ns = 0;
  for (int i = 0; i < 5; ++i) more_ns += shim_.BeforeImage(7, 1, kLong);
  EXPECT_EQ(more_ns, 0U) << "the time is over";
}

TEST_F(VulkanCalls, AWindowThatIsGoneLeavesItsPlace) {
  Attach();
  for (std::uint64_t window = 100; window < 300; ++window) {
    Present(window);
    shim_.ForgetWindow(window);
  }
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 200U);
  for (const auto& frame : frames) {
    EXPECT_EQ(frame.surface, frames[0].surface);
    EXPECT_EQ(frame.begin_ns, frame.present_ns) << "it has no frame before it";
  }
}

TEST_F(VulkanCalls, WithoutADaemonEveryCallPasses) {
  ProcessShim process(folder_ / "nobody", "auto", proto::Api::kVulkan);
  VulkanShim shim(process);
  weir_shim_pass pass{};
  for (int i = 0; i < 10; ++i) {
    shim.BeforePresent(pass, 1, kGpu);
    shim.AfterPresent(pass);
    shim.BeforeWork(pass = {}, WEIR_VULKAN_SUBMITS, kGpu);
    shim.AfterWork(pass);
  }
  EXPECT_EQ(shim.BeforeImage(1, 3, 1'000'000'000), 0U);
  EXPECT_EQ(host_.Processes(), 0U);
}

}  // namespace
}  // namespace weir::shim
