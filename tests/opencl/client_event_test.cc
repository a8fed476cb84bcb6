// SPDX-License-Identifier: Apache-2.0
// Events, threads, processes.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "platform/clock.h"
#include "platform/spawn.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"
#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

// -- Events
// ------------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, UserEventsHoldCommandsBack) {
  cl_mem buffer = Buffer(64);
  const int one = 1;
  cl_event mine = cl.clCreateUserEvent(context_, &error_), filled = nullptr;
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &one, 4, 0, 64, 1, &mine, &filled), CL_SUCCESS);
  int back = 0;
  cl_event read = nullptr;
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 0, nullptr, &read), CL_SUCCESS);
  cl_int status = CL_COMPLETE;
  cl.clGetEventInfo(filled, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  EXPECT_GT(status, CL_COMPLETE);
  std::thread other([&] {
    ::usleep(20'000);
    EXPECT_EQ(cl.clSetUserEventStatus(mine, CL_COMPLETE), CL_SUCCESS);
  });
  EXPECT_EQ(cl.clWaitForEvents(1, &read), CL_SUCCESS);
  other.join();
  EXPECT_EQ(back, 1);
  cl.clGetEventInfo(filled, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  EXPECT_EQ(status, CL_COMPLETE) << "a later command has ended";
  EXPECT_EQ(cl.clSetUserEventStatus(mine, CL_COMPLETE), CL_INVALID_OPERATION);
  for (cl_event event : {mine, filled, read}) cl.clReleaseEvent(event);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, ACommandAfterAFailedEventFails) {
  const int before = 7, after = 8;
  int held = before, back = 0;
  cl_mem buffer = Buffer(64, std::vector<int>(16, before).data());
  cl_kernel four = Kernel("four");
  ASSERT_EQ(Set(four, 0, buffer), CL_SUCCESS);
  const auto status_of = [](cl_event event) {
    EXPECT_EQ(cl.clWaitForEvents(1, &event), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    cl_int status = CL_COMPLETE;
    cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    cl.clReleaseEvent(event);
    return status;
  };
  cl_event mine = cl.clCreateUserEvent(context_, &error_), made[6] = {};
  // Two commands wait when it fails, and the host waits for one of them; the others come later.
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &after, 4, 0, 64, 1, &mine, &made[0]), CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 0, nullptr, &made[5]), CL_SUCCESS);
  cl.clFlush(queue_);
  std::thread waits([&] { EXPECT_EQ(cl.clWaitForEvents(1, &made[5]), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST); });
  ::usleep(20'000);
  ASSERT_EQ(cl.clSetUserEventStatus(mine, -5), CL_SUCCESS);
  waits.join();
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, 4, &back, 1, &mine, nullptr),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_TRUE, 0, 4, &after, 1, &mine, nullptr),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 1, &mine, &made[1]), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, 4, &after, 1, &made[0], &made[2]), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &after, 4, 0, 64, 1, &mine, nullptr), CL_SUCCESS);
  const std::size_t items = 16;
  EXPECT_EQ(cl.clEnqueueNDRangeKernel(queue_, four, 1, nullptr, &items, nullptr, 1, &mine, &made[3]), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueMarkerWithWaitList(queue_, 1, &made[3], &made[4]), CL_SUCCESS);
  for (const int i : {0, 5}) EXPECT_LT(status_of(made[i]), 0) << "command " << i;
  for (const int i : {1, 2, 3, 4})
    EXPECT_EQ(status_of(made[i]), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) << "command " << i;
  EXPECT_EQ(back, 0);
  // The queue goes on, and none of them has done anything.
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, 4, &held, 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(held, before);
  cl.clReleaseEvent(mine);
  cl.clReleaseKernel(four);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, AFailedCommandSaysNothingOfThoseBeforeIt) {
  cl_mem buffer = Buffer(64);
  const int one = 1;
  int back = -1;
  cl_event failed = cl.clCreateUserEvent(context_, &error_), held = cl.clCreateUserEvent(context_, &error_);
  cl_event last = nullptr;
  ASSERT_EQ(cl.clSetUserEventStatus(failed, -5), CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &one, 4, 0, 64, 1, &held, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 0, nullptr, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueMarkerWithWaitList(queue_, 1, &failed, &last), CL_SUCCESS);
  EXPECT_EQ(cl.clWaitForEvents(1, &last), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(back, -1) << "the read waits for the fill";
  EXPECT_EQ(cl.clSetUserEventStatus(held, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  EXPECT_EQ(back, one);
  for (cl_event event : {failed, held, last}) cl.clReleaseEvent(event);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, CallbacksMayCallOpenCl) {
  struct Seen {
    std::atomic<int> events{0}, builds{0}, memory{0};
    cl_command_queue queue = nullptr;
    cl_mem buffer = nullptr;
  } seen;
  seen.queue = queue_;
  seen.buffer = Buffer(64);
  const int one = 1;
  cl_event event = nullptr;
  cl.clEnqueueFillBuffer(queue_, seen.buffer, &one, 4, 0, 64, 0, nullptr, &event);
  ASSERT_EQ(cl.clSetEventCallback(
                event, CL_COMPLETE,
                [](cl_event, cl_int status, void* user) {
                  auto& at = *static_cast<Seen*>(user);
                  int back = 0;
                  const int two = 2;
                  cl.clEnqueueFillBuffer(at.queue, at.buffer, &two, 4, 0, 64, 0, nullptr, nullptr);
                  cl.clEnqueueReadBuffer(at.queue, at.buffer, CL_TRUE, 0, 4, &back, 0, nullptr, nullptr);
                  at.events = status == CL_COMPLETE ? back : -1;
                },
                &seen),
            CL_SUCCESS);
  cl_program program = cl.clCreateProgramWithSource(context_, 1, const_cast<const char**>(&kSource), nullptr, &error_);
  ASSERT_EQ(
      cl.clBuildProgram(
          program, 0, nullptr, nullptr, [](cl_program, void* user) { ++static_cast<Seen*>(user)->builds; }, &seen),
      CL_SUCCESS);
  cl_mem doomed = Buffer(4096);
  cl.clSetMemObjectDestructorCallback(
      doomed, [](cl_mem, void* user) { ++static_cast<Seen*>(user)->memory; }, &seen);
  cl.clReleaseMemObject(doomed);
  for (int i = 0; i < 1000 && (seen.events == 0 || seen.builds == 0 || seen.memory == 0); ++i) ::usleep(10'000);
  EXPECT_EQ(seen.events, 2);
  EXPECT_EQ(seen.builds, 1);
  EXPECT_EQ(seen.memory, 1);
  cl.clReleaseEvent(event);
  cl.clReleaseProgram(program);
  cl.clReleaseMemObject(seen.buffer);
}

TEST_F(OpenCl, TimesAreInOrderAndOfTheHostsClock) {
  cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, CL_QUEUE_PROFILING_ENABLE, &error_);
  cl_mem buffer = Buffer(64);
  cl_kernel slow = Kernel("slow");
  Set(slow, 0, buffer), Set(slow, 1, 1'000'000);
  cl_ulong before = 0, after = 0, times[4] = {};
  cl.clGetHostTimer(device_, &before);
  cl_event event = nullptr;
  Launch(slow, 1, &event, queue);
  const cl_int told = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, times, nullptr);
  EXPECT_EQ(told == CL_SUCCESS, times[0] != 0);
  cl.clFinish(queue);
  cl.clGetHostTimer(device_, &after);
  const cl_profiling_info names[] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                                     CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
  for (int i = 0; i < 4; ++i) ASSERT_EQ(cl.clGetEventProfilingInfo(event, names[i], 8, &times[i], nullptr), CL_SUCCESS);
  EXPECT_LE(before, times[0]);
  EXPECT_LE(times[0], times[1]);
  EXPECT_LE(times[1], times[2]);
  EXPECT_LT(times[2], times[3]);
  EXPECT_LE(times[3], after);
  cl.clReleaseEvent(event);
  cl.clReleaseKernel(slow);
  cl.clReleaseMemObject(buffer);
  cl.clReleaseCommandQueue(queue);
}

TEST_F(OpenCl, OutOfOrderQueuesReadAfterTheirEvents) {
  cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  std::vector<int> ones(4096, 1), back(4096);
  cl_mem a = Buffer(16384), b = Buffer(16384);
  cl_kernel add = Kernel("add");
  Set(add, 0, a), Set(add, 1, b);
  for (int round = 0; round < 50; ++round) {
    cl_event written = nullptr, added = nullptr, read = nullptr;
    std::fill(ones.begin(), ones.end(), round);
    cl.clEnqueueWriteBuffer(queue, a, CL_FALSE, 0, 16384, ones.data(), 0, nullptr, &written);
    Set(add, 2, 5);
    const std::size_t items = 4096;
    cl.clEnqueueNDRangeKernel(queue, add, 1, nullptr, &items, nullptr, 1, &written, &added);
    cl.clEnqueueReadBuffer(queue, b, round % 2, 0, 16384, back.data(), 1, &added, &read);
    ASSERT_EQ(cl.clWaitForEvents(1, &read), CL_SUCCESS);
    ASSERT_EQ(back, std::vector<int>(4096, round + 5));
    for (cl_event event : {written, added, read}) cl.clReleaseEvent(event);
  }
  cl.clReleaseKernel(add);
  cl.clReleaseMemObject(a);
  cl.clReleaseMemObject(b);
  cl.clReleaseCommandQueue(queue);
}

TEST_F(OpenCl, ThreadsShareAContext) {
  cl_kernel parent = Kernel("add");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      cl_int error = CL_SUCCESS;
      cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, 0, &error);
      cl_kernel add = cl.clCloneKernel(parent, &error);
      for (int round = 0; round < 100; ++round) {
        std::vector<int> numbers(256, round), back(256);
        cl_mem a = cl.clCreateBuffer(context_, CL_MEM_COPY_HOST_PTR, 1024, numbers.data(), &error);
        cl_mem b = cl.clCreateBuffer(context_, 0, 1024, nullptr, &error);
        Set(add, 0, a), Set(add, 1, b), Set(add, 2, t);
        EXPECT_EQ(Launch(add, 256, nullptr, queue), CL_SUCCESS);
        cl.clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 1024, back.data(), 0, nullptr, nullptr);
        EXPECT_EQ(back, std::vector<int>(256, round + t));
        cl.clReleaseMemObject(a);
        cl.clReleaseMemObject(b);
      }
      cl.clReleaseKernel(add);
      cl.clReleaseCommandQueue(queue);
    });
  }
  for (std::thread& thread : threads) thread.join();
  cl.clReleaseKernel(parent);
}

// -- Processes
// ---------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, AForkedChildConnectsAgain) {
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = 0;
    cl_int error = CL_SUCCESS;
    cl.clCreateBuffer(context_, 0, 64, nullptr, &error);
    wrong |= error != kGone ? 1 : 0;
    wrong |= cl.clFinish(queue_) != kGone ? 2 : 0;
    cl_device_id device = nullptr;
    wrong |= cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS || device == device_
                 ? 4
                 : 0;
    cl_context context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    cl_command_queue queue = cl.clCreateCommandQueue(context, device, 0, &error);
    cl_mem buffer = cl.clCreateBuffer(context, 0, 64, nullptr, &error);
    const int one = 1;
    int back = 0;
    cl.clEnqueueFillBuffer(queue, buffer, &one, 4, 0, 64, 0, nullptr, nullptr);
    wrong |= cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &back, 0, nullptr, nullptr) != CL_SUCCESS || back != 1
                 ? 8
                 : 0;
    cl.clReleaseContext(context_);
    ::_exit(wrong);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
  cl_mem buffer = Buffer(64);
  EXPECT_EQ(Read(buffer, 1).size(), 1U) << "the parent goes on";
  cl.clReleaseMemObject(buffer);
}

/// Bits of what was wrong, by a child: it connects anew, and this process keeps its own connection.
int InAChild(const std::function<int()>& test) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(test());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(OpenCl, CpusAreReportedAsGpusToProgramsThatWantGpus) {
  cl_device_id device = nullptr;
  EXPECT_EQ(cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_CPU, 1, &device, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_GPU, 1, &device, nullptr), CL_DEVICE_NOT_FOUND);
  EXPECT_EQ(InAChild([&] {
              ::setenv("WEIR_OPENCL_DEVICE_TYPE", "gpu", 1);
              const auto find = [&](cl_device_type type) {
                return cl.clGetDeviceIDs(platform_, type, 1, &device, nullptr);
              };
              int wrong = find(CL_DEVICE_TYPE_CPU) != CL_DEVICE_NOT_FOUND ? 1 : 0;
              wrong |= find(CL_DEVICE_TYPE_DEFAULT) != CL_SUCCESS ? 2 : 0;
              wrong |= find(CL_DEVICE_TYPE_ACCELERATOR) != CL_DEVICE_NOT_FOUND ? 4 : 0;
              if (find(CL_DEVICE_TYPE_GPU) != CL_SUCCESS) return wrong | 8;
              cl_device_type type = 0;
              cl.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
              return wrong | ((type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) != CL_DEVICE_TYPE_GPU ? 16 : 0);
            }),
            0);
}

TEST_F(OpenCl, EveryCallFailsSoonWithoutTheExecutor) {
  EXPECT_EQ(InAChild([&] {
              const testing::TempFolder folder;
              const std::string socket = folder / "s";
              const auto executor = platform::Spawn({.argv = {WEIR_EXECUTOR, "--socket", socket, "--cpus", "2"}});
              AwaitListener(socket);
              ::setenv("WEIR_OPENCL", socket.c_str(), 1);
              cl_device_id device = nullptr;
              cl_int error = CL_SUCCESS;
              if (cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) return 1;
              cl_context context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
              cl_command_queue queue = cl.clCreateCommandQueue(context, device, 0, &error);
              cl_mem buffer = cl.clCreateBuffer(context, 0, 64, nullptr, &error);
              cl_event mine = cl.clCreateUserEvent(context, &error), filled = nullptr;
              const int one = 1;
              if (cl.clEnqueueFillBuffer(queue, buffer, &one, 4, 0, 64, 1, &mine, &filled) != CL_SUCCESS) return 2;
              int wrong = 0;
              std::thread waiter([&] { wrong |= cl.clWaitForEvents(1, &filled) >= 0 ? 4 : 0; });
              ::usleep(50'000);
              ::kill(*executor, SIGKILL);
              const std::int64_t killed_ns = platform::NowNs();
              waiter.join();
              wrong |= platform::NowNs() - killed_ns > 500'000'000 ? 8 : 0;
              wrong |= cl.clFinish(queue) != kGone ? 16 : 0;
              cl.clCreateBuffer(context, 0, 64, nullptr, &error);
              wrong |= error != kGone ? 32 : 0;
              int back = 0;
              wrong |=
                  cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &back, 0, nullptr, nullptr) != kGone ? 64 : 0;
              for (cl_event event : {mine, filled}) cl.clReleaseEvent(event);
              wrong |= cl.clReleaseMemObject(buffer) != CL_SUCCESS || cl.clReleaseCommandQueue(queue) != CL_SUCCESS ||
                               cl.clReleaseContext(context) != CL_SUCCESS
                           ? 128
                           : 0;
              ::waitpid(*executor, nullptr, 0);
              return wrong;
            }),
            0);
}

}  // namespace
}  // namespace weir::opencl::icd
