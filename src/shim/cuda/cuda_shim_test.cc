// SPDX-License-Identifier: Apache-2.0
// CUDA's part of the shim between a gate and calls that a test makes in the library's place.
#include "shim/cuda/cuda_shim.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "core/schedule/batch_bounds.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::shim {
namespace {

using testing::GateHost;
using testing::TempFolder;
using testing::WaitUntil;

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr int kStreamObject = 0;
constexpr weir_cuda_stream kStream{&kStreamObject, "Fake GPU", nullptr};

class CudaCalls : public ::testing::Test {
 protected:
  CudaCalls() : path_(folder_ / "c"), host_(path_) {}

  void Work() {
    weir_shim_pass pass{};
    shim_.BeforeWork(pass, kStream);
    shim_.AfterWork(pass);
  }
  void Attach() {
    EXPECT_TRUE(WaitUntil([this] {
      Work();
      return !host_.Drain().frames.empty();
    }));
    host_.Settle();
  }
  /// A call that ends a batch.
  void Batch() {
    std::this_thread::sleep_for(core::BatchBounds::kLaunchesLeast);
    Work();
  }
  gate::ProcessInfo Info() {
    return host_.With([](gate::VgpuGate& gate) { return gate.processes().begin()->second->Info(); });
  }

  TempFolder folder_;
  const std::string path_;
  GateHost host_;
  ProcessShim process_{path_, "auto", proto::Api::kCuda};
  CudaShim shim_{process_};
};

TEST_F(CudaCalls, OnTwoDevicesMayTakeTwiceTheTime) {
  Attach();
  shim_.UseDevices(2);
  shim_.UseDevices(1);  // the contexts of one have ended, and their work may still be reported
  shim_.ReportTime(0, 0, 190 * kNsPerMs);
  Batch();
  EXPECT_EQ(Info().meter, proto::MeterKind::kTimerQuery);
  const auto frames = host_.Drain().frames;
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].gpu_ns, 190 * kNsPerMs);
}

TEST_F(CudaCalls, OnOneDeviceMayNotContradictTheWallClock) {
  Attach();
  shim_.ReportTime(0, 0, 3'600'000 * kNsPerMs);
  Batch();
  EXPECT_EQ(Info().meter, proto::MeterKind::kWallClock);
}

}  // namespace
}  // namespace weir::shim
