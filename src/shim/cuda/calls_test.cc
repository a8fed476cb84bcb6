// SPDX-License-Identifier: Apache-2.0
// The library's functions on a driver whose device works when the test says so, with a shim that lets every call end a
// batch.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "shim/cuda/hooks.h"
#include "shim/cuda/streams.h"
#include "tests/harness/cuda_device.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
using weir::shim::cuda::CudaHandle;
using weir::shim::cuda::CudaPointer;
using weir::shim::cuda::CudaResult;
extern "C" {
CudaResult cuLaunchKernel(CudaHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaHandle,
                          void**, void**);
struct LaunchOnDevice;
CudaResult cuLaunchCooperativeKernelMultiDevice(LaunchOnDevice*, unsigned, unsigned);
CudaResult cuMemcpyDtoH_v2(void*, CudaPointer, size_t);
CudaResult cuStreamSynchronize(CudaHandle);
CudaResult cuStreamSynchronize_ptsz(CudaHandle);
CudaResult cuCtxSynchronize();
CudaResult cuCtxSynchronize_v2(CudaHandle);
CudaResult cuEventSynchronize(CudaHandle);
CudaResult cuStreamQuery(CudaHandle);
CudaResult cuStreamQuery_ptsz(CudaHandle);
CudaResult cuEventQuery(CudaHandle);
CudaResult cuCtxDestroy_v2(CudaHandle);
CudaResult cuCtxDetach(CudaHandle);
CudaResult cuDevicePrimaryCtxRetain(CudaHandle*, int);
CudaResult cuDevicePrimaryCtxRelease_v2(int);
CudaResult cuDevicePrimaryCtxReset_v2(int);
CudaResult cuStreamDestroy_v2(CudaHandle);
}
// NOLINTEND(readability-identifier-naming)

namespace weir::shim::cuda {

void* weir_cuda_driver[kFunctions];
bool DriverHas(Function function) { return weir_cuda_driver[function] != nullptr; }

namespace {

constexpr double kMsNs = 1e6;

/// What the shim was told.
struct {
  std::int64_t reported_ns = 0, charged_ns = 0;
  const void* stream = nullptr;  // of the last call
  bool ends_batches = true;
} told;

class LibraryCalls : public ::testing::Test {
 protected:
  LibraryCalls() {
    told = {};
    ForgetContext(device_.own_context);
    FakeDevice::Set(
        kCall_cuStreamIsCapturing, +[](CudaHandle, int* status) { return *status = 0, kSuccess; });
    FakeDevice::Set(
        kCall_cuLaunchKernel, +[](CudaHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  CudaHandle stream, void**, void**) {
          FakeDevice::only->Launch(stream, 10 * kMsNs);
          return kSuccess;
        });
    FakeDevice::Set(
        kCall_cuLaunchCooperativeKernelMultiDevice, +[](LaunchOnDevice*, unsigned, unsigned) { return kSuccess; });
    FakeDevice::Set(
        kCall_cuMemcpyDtoH_v2, +[](void*, CudaPointer, size_t) { return FakeDevice::only->Finish(), kSuccess; });
    for (const Function wait : {kCall_cuStreamSynchronize, kCall_cuStreamSynchronize_ptsz, kCall_cuCtxSynchronize_v2,
                                kCall_cuEventSynchronize})
      FakeDevice::Set(
          wait, +[](CudaHandle) { return FakeDevice::only->Finish(), kSuccess; });
    FakeDevice::Set(
        kCall_cuCtxSynchronize, +[] { return FakeDevice::only->Finish(), kSuccess; });
    for (const Function query : {kCall_cuStreamQuery, kCall_cuStreamQuery_ptsz})
      FakeDevice::Set(
          query, +[](CudaHandle stream) {
            return FakeDevice::only->busy_until_ns[stream] <= FakeDevice::only->now_ns ? kSuccess : kNotReady;
          });
    for (const Function end : {kCall_cuCtxDestroy_v2, kCall_cuCtxDetach})
      FakeDevice::Set(
          end, +[](CudaHandle context) { return FakeDevice::only->EndContext(context), kSuccess; });
    for (const Function end : {kCall_cuDevicePrimaryCtxRelease_v2, kCall_cuDevicePrimaryCtxReset_v2})
      FakeDevice::Set(
          end, +[](int) { return FakeDevice::only->EndContext(FakeDevice::only->own_context), kSuccess; });
    FakeDevice::Set(
        kCall_cuDevicePrimaryCtxRetain,
        +[](CudaHandle* context, int) { return *context = FakeDevice::only->own_context, kSuccess; });
    FakeDevice::Set(
        kCall_cuDevicePrimaryCtxGetState, +[](int, unsigned*, int* active) { return *active = 0, kSuccess; });
    FakeDevice::Set(
        kCall_cuStreamDestroy_v2, +[](CudaHandle) { return kSuccess; });
    device_.owners[stream_] = device_.own_context;
  }
  void Launch() { cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr); }

  FakeDevice device_;
  int place_ = 0;
  const CudaHandle stream_ = &place_;
};

TEST_F(LibraryCalls, ThatWaitHaveTheLastBatchCharged) {
  char byte = 0;
  const std::function<void()> waits[] = {[&] { cuStreamSynchronize(stream_); },
                                         [&] { cuStreamSynchronize_ptsz(stream_); },
                                         [] { cuCtxSynchronize(); },
                                         [&] { cuCtxSynchronize_v2(device_.own_context); },
                                         [] { cuEventSynchronize(nullptr); },
                                         [&] {
                                           told.ends_batches = false;
                                           cuMemcpyDtoH_v2(&byte, 0, 1);
                                         }};
  for (const auto& wait : waits) {
    const std::int64_t before_ns = told.charged_ns;
    told.ends_batches = true;
    Launch();
    EXPECT_EQ(told.charged_ns, before_ns);
    wait();
    EXPECT_NEAR(static_cast<double>(told.charged_ns - before_ns), 10 * kMsNs, 0.1 * kMsNs);
  }
}

TEST_F(LibraryCalls, ThatFindWorkDoneHaveItCharged) {
  auto& event = *static_cast<FakeDevice::Event*>(device_.NewEvent());
  const std::function<CudaResult()> queries[] = {[&] { return cuStreamQuery(stream_); },
                                                 [&] { return cuStreamQuery_ptsz(stream_); },
                                                 [&] { return cuEventQuery(&event); }};
  for (const auto& query : queries) {
    const std::int64_t before_ns = told.charged_ns;
    Launch();
    event.at_ns = device_.busy_until_ns[stream_];
    EXPECT_EQ(query(), kNotReady);
    EXPECT_EQ(told.charged_ns, before_ns);
    device_.Finish();
    EXPECT_EQ(query(), kSuccess);
    EXPECT_NEAR(static_cast<double>(told.charged_ns - before_ns), 10 * kMsNs, 0.1 * kMsNs);
  }
}

TEST_F(LibraryCalls, ThatFindAStreamsWorkDoneHaveItsOpenBatchCharged) {
  Launch();
  device_.Finish();
  EXPECT_EQ(cuStreamQuery(stream_), kSuccess);
  const std::int64_t before_ns = told.charged_ns;
  told.ends_batches = false;
  Launch();
  Launch();
  device_.Finish();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than a batch
  EXPECT_EQ(cuStreamQuery(stream_), kSuccess);
  EXPECT_NEAR(static_cast<double>(told.charged_ns - before_ns), 20 * kMsNs, 0.1 * kMsNs);
}

// Programs ask in loops. While nothing is uncharged, a query is passed on at once.
TEST_F(LibraryCalls, ThatFindWorkDoneLeaveNothingUncharged) {
  Launch();
  EXPECT_GT(uncharged.load(), 0);
  device_.Finish();
  EXPECT_EQ(cuStreamQuery(stream_), kSuccess);
  EXPECT_EQ(uncharged.load(), 0);
}

// Another context may have the same handle.
TEST_F(LibraryCalls, ThatEndAContextHaveItsWorkChargedAndItsEventsForgotten) {
  CudaHandle context = nullptr;
  device_.question_ns = 0.1 * kMsNs;
  const std::function<void()> ends[] = {
      [&] { cuCtxDestroy_v2(device_.own_context); },
      [&] { cuCtxDetach(device_.own_context); },
      [&] {
        cuDevicePrimaryCtxRelease_v2(0);
        cuDevicePrimaryCtxRetain(&context, 0);
      },
      [] { cuDevicePrimaryCtxReset_v2(0); },
  };
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), kSuccess);
  for (const auto& end : ends) {
    const std::int64_t before_ns = told.charged_ns;
    for (int i = 0; i < 3; ++i) {
      told.ends_batches = i == 0;  // the others are those of a batch that has not ended
      Launch();
    }
    end();
    EXPECT_NEAR(static_cast<double>(told.charged_ns - before_ns), 30 * kMsNs, 1 * kMsNs);
    EXPECT_EQ(device_.uses_of_ended, 0);
  }
}

TEST_F(LibraryCalls, ThatDestroyAStreamLeaveItsNumberToAnother) {
  std::vector<char> places(2000);
  for (char& place : places) {
    device_.owners[&place] = device_.own_context;
    told.stream = nullptr;
    cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, &place, nullptr, nullptr);
    ASSERT_NE(told.stream, nullptr) << "the call passes the gate";
    cuStreamDestroy_v2(&place);
  }
}

TEST_F(LibraryCalls, ThatLaunchOnSeveralDevicesAreMeasuredInTheFirstOnesStream) {
  struct OnDevice {  // CUDA_LAUNCH_PARAMS
    CudaHandle kernel;
    unsigned sizes[7];
    CudaHandle stream;
    void** parameters;
  };
  OnDevice launches[2]{};
  launches[0].stream = stream_;
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(reinterpret_cast<LaunchOnDevice*>(launches), 2, 0), kSuccess);
  EXPECT_EQ(told.stream, FindStream(stream_, false, device_.context));
  EXPECT_EQ(cuLaunchCooperativeKernelMultiDevice(nullptr, 0, 0), kSuccess) << "the driver says what it thinks of it";
}

const weir_cuda_hooks kTelling = {
    .version = WEIR_CUDA_HOOKS_VERSION,
    .before_work =
        [](weir_shim_pass*, const weir_cuda_stream* stream) {
          told.stream = stream->key;
          return told.ends_batches ? 1 : 0;
        },
    .after_work = [](weir_shim_pass*) {},
    .report_time = [](unsigned, unsigned, long long gpu_ns) { told.reported_ns += gpu_ns; },
    .charges = [] { return 1; },
    .settle = [] { told.charged_ns = told.reported_ns; },
    .use_devices = [](unsigned) {},
    .claim_memory = [](unsigned long long) { return 1; },
    .release_memory = [](unsigned long long) {},
    .used_memory = [](weir_shim_memory* use) { *use = {}; }};

}  // namespace
}  // namespace weir::shim::cuda

extern "C" const void* weir_open_shim(const char*, unsigned, void* (*)(void*, const char*)) {
  return &weir::shim::cuda::kTelling;
}
