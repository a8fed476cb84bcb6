// SPDX-License-Identifier: Apache-2.0
// What calls cost in messages and round trips.
#include <algorithm>
#include <numeric>

#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

TEST_F(OpenCl, ComputesTheProgramsResults) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  cl_mem a = Buffer(4000, numbers.data()), b = Buffer(4000);
  cl_kernel add = Kernel("add");
  ASSERT_EQ(Set(add, 0, a), CL_SUCCESS);
  ASSERT_EQ(Set(add, 1, b), CL_SUCCESS);
  ASSERT_EQ(Set(add, 2, 7), CL_SUCCESS);
  ASSERT_EQ(Launch(add, 1000), CL_SUCCESS);
  const std::vector<int> result = Read(b, 1000);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(result[i], i + 7);
  cl.clReleaseKernel(add);
  cl.clReleaseMemObject(a);
  cl.clReleaseMemObject(b);
}

// -- What calls cost
// ---------------------------------------------------------------------------------------------------

TEST_F(OpenCl, OnlyBlockingCallsWait) {
  if (MemoryIsElastic() || IsRemote()) GTEST_SKIP() << "what lies in the arena is read and written there";
  std::vector<int> numbers(1024, 1);
  cl_kernel add = Kernel("add");
  cl_mem a = nullptr, b = nullptr;
  EXPECT_EQ(CostOf([&] { a = Buffer(4096), b = Buffer(4096); }), (Cost{2, 0}));
  Read(b, 1);
  EXPECT_EQ(CostOf([&] { Set(add, 0, a), Set(add, 1, b), Set(add, 2, 1); }), (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] { Set(add, 0, a), Set(add, 2, 1); }), (Cost{0, 0})) << "nothing has changed";
  EXPECT_EQ(CostOf([&] {
              for (int i = 0; i < 10; ++i) Launch(add, 1024);
            }),
            (Cost{13, 0}));
  EXPECT_EQ(CostOf([&] { cl.clEnqueueWriteBuffer(queue_, a, CL_TRUE, 0, 4096, numbers.data(), 0, nullptr, nullptr); }),
            (Cost{1, 0}))
      << "the bytes are in the message";
  EXPECT_EQ(CostOf([&] { Read(b, 16); }), (Cost{1, 1}));
  EXPECT_EQ(CostOf([&] { Read(b, 16); }), (Cost{0, 0})) << "the queue is idle";
  EXPECT_EQ(CostOf([&] { cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, 4096, numbers.data(), 0, nullptr, nullptr); }),
            (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] { cl.clFinish(queue_), cl.clFlush(queue_); }), (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] {
              void* pointer = cl.clEnqueueMapBuffer(queue_, a, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 4096, 0, nullptr,
                                                    nullptr, &error_);
              cl.clEnqueueUnmapMemObject(queue_, a, pointer, 0, nullptr, nullptr);
            }),
            (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] { Launch(add, 1024), cl.clFlush(queue_), cl.clFinish(queue_); }), (Cost{3, 1}));
  cl_event event = nullptr;
  EXPECT_EQ(CostOf([&] { Launch(add, 1024, &event), cl.clWaitForEvents(1, &event); }), (Cost{2, 1}));
  EXPECT_EQ(CostOf([&] { cl.clWaitForEvents(1, &event), Read(b, 16); }), (Cost{0, 0}))
      << "the last command is known to have ended";
  cl_uint count = 0;
  std::size_t size = 0;
  EXPECT_EQ(CostOf([&] {
              cl.clGetKernelInfo(add, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
              cl.clGetKernelWorkGroupInfo(add, device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, nullptr);
              cl.clGetMemObjectInfo(a, CL_MEM_SIZE, sizeof size, &size, nullptr);
              cl.clGetDeviceInfo(device_, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof size, &size, nullptr);
              cl.clRetainMemObject(a), cl.clReleaseMemObject(a);
            }),
            (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] {
              cl.clReleaseEvent(event), cl.clReleaseKernel(add), cl.clReleaseMemObject(a), cl.clReleaseMemObject(b);
            }),
            (Cost{4, 0}));
  EXPECT_EQ(CostOf([&] { cl.clReleaseProgram(Program(kSource)); }), (Cost{3, 1})) << "create, build, release";
}

// Also where the device is another machine's: what a program does from its first object to its result is one wait.
TEST_F(OpenCl, AWholeJobIsOneRoundTrip) {
  std::vector<int> numbers(1024, 1);
  cl_kernel add = Kernel("add");
  const auto job = [&] {
    cl_mem a = Buffer(4096), b = Buffer(4096);
    cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, 4096, numbers.data(), 0, nullptr, nullptr);
    Set(add, 0, a), Set(add, 1, b), Set(add, 2, 41);
    Launch(add, 1024);
    EXPECT_EQ(Read(b, 1024), std::vector<int>(1024, 42));
    cl.clReleaseMemObject(a), cl.clReleaseMemObject(b);
  };
  EXPECT_EQ(CostOf(job).round_trips, 1U);
  EXPECT_EQ(CostOf(job).round_trips, 1U) << "and again";
  cl.clReleaseKernel(add);
}

TEST_F(OpenCl, CallsWithoutAWaiterWakeNoThread) {
  std::vector<int> numbers(1024, 1);
  const std::atomic<std::uint64_t>& wakes = Link::Existing()->stats().wakes;
  const std::uint64_t before = wakes.load();
  constexpr std::uint64_t kJobs = 200;
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    cl_mem a = Buffer(4096);
    cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, 4096, numbers.data(), 0, nullptr, nullptr);
    cl.clFinish(queue_);
    cl.clReleaseMemObject(a);
  }
  EXPECT_LE(wakes.load() - before, 2 * kJobs) << "the write and the finish; not the create, nor the release";
}

TEST_F(OpenCl, ALongReadGivesTheBuffersContentsInAnyPieces) {
  for (const std::size_t size : {(4UL << 20) + 1, 9UL << 20, (40UL << 20) + 12'345}) {
    std::vector<unsigned char> content(size + 3), back(size + 2, 0xEE);
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<unsigned char>(i * 31 + i / 65'521);
    cl_mem buffer = Buffer(content.size(), content.data());
    const auto read = [&] {
      ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 3, size, back.data() + 1, 0, nullptr, nullptr),
                CL_SUCCESS);
    };
    const std::uint64_t round_trips = CostOf(read).round_trips;
    if (IsRemote()) {
      EXPECT_GE(round_trips, 1U);
      EXPECT_LE(round_trips, (size >> 21) + 1) << "of parts that are on their way at once";
    }
    EXPECT_TRUE(std::equal(content.begin() + 3, content.end(), back.begin() + 1)) << size;
    EXPECT_EQ(back.front(), 0xEE);
    EXPECT_EQ(back.back(), 0xEE);
    cl.clReleaseMemObject(buffer);
  }
}

TEST_F(OpenCl, BlockingWritesRunAheadByTheBound) {
  constexpr std::size_t kBytes = 4 << 20;
  constexpr int kWrites = 40, kAheadMost = 64 / 4;
  std::vector<unsigned char> content(kBytes);
  cl_mem buffer = Buffer(kBytes);
  const unsigned char zero = 0;
  cl_event held = cl.clCreateUserEvent(context_, &error_);
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &zero, 1, 0, kBytes, 1, &held, nullptr), CL_SUCCESS);
  std::atomic<int> returned{0};
  std::thread writer([&] {
    for (int i = 0; i < kWrites; ++i) {
      std::fill(content.begin(), content.end(), static_cast<unsigned char>(i + 1));
      EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_TRUE, 0, kBytes, content.data(), 0, nullptr, nullptr),
                CL_SUCCESS);
      ++returned;
    }
  });
  for (int before = -1; before != returned.load(); ::usleep(100'000)) before = returned.load();
  EXPECT_LE(returned.load(), kAheadMost) << "nothing can have been written yet";
  EXPECT_EQ(cl.clSetUserEventStatus(held, CL_COMPLETE), CL_SUCCESS);
  writer.join();
  std::fill(content.begin(), content.end(), zero);
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, kBytes, content.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  EXPECT_EQ(std::count(content.begin(), content.end(), kWrites), static_cast<std::ptrdiff_t>(kBytes));
  cl.clReleaseEvent(held);
  cl.clReleaseMemObject(buffer);
}

}  // namespace
}  // namespace weir::opencl::icd
