// SPDX-License-Identifier: Apache-2.0
// Several queues of one context, and queues out of order.
#include <thread>

#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

class OpenClQueues : public OpenCl {
 protected:
  void SetUp() override {
    OpenCl::SetUp();
    buffer_ = Buffer(64, std::vector<int>(16, kBefore).data());
    busy_ = Buffer(64);
    held_ = cl.clCreateUserEvent(context_, &error_);
  }
  void TearDown() override {
    cl.clReleaseEvent(held_);
    cl.clReleaseMemObject(busy_);
    cl.clReleaseMemObject(buffer_);
    OpenCl::TearDown();
  }
  cl_command_queue MakeQueue(cl_command_queue_properties properties = 0) {
    cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, properties, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    return queue;
  }
  cl_int Fill(cl_command_queue queue, cl_event waits) {
    const int zero = 0;
    return cl.clEnqueueFillBuffer(queue, busy_, &zero, 4, 0, 64, 1, &waits, nullptr);
  }
  cl_int Write(cl_command_queue queue, const cl_event* waits = nullptr) {
    const int after = kAfter;
    return cl.clEnqueueWriteBuffer(queue, buffer_, CL_TRUE, 0, 4, &after, waits != nullptr ? 1 : 0, waits, nullptr);
  }
  int ReadBy(cl_command_queue queue) {
    int value = -1;
    EXPECT_EQ(cl.clEnqueueReadBuffer(queue, buffer_, CL_TRUE, 0, 4, &value, 0, nullptr, nullptr), CL_SUCCESS);
    return value;
  }
  /// Sets the event while this thread waits.
  std::thread SetsSoon(cl_event event) {
    return std::thread([event] {
      ::usleep(20'000);
      EXPECT_EQ(cl.clSetUserEventStatus(event, CL_COMPLETE), CL_SUCCESS);
    });
  }
  /// Keeps the queue busy for some tenths of a second.
  void KeepBusy() {
    cl_kernel slow = Kernel("slow");
    EXPECT_EQ(Set(slow, 0, busy_), CL_SUCCESS);
    EXPECT_EQ(Set(slow, 1, 100'000'000), CL_SUCCESS);
    EXPECT_EQ(Launch(slow, 1), CL_SUCCESS);
    cl.clReleaseKernel(slow);
  }

  static constexpr int kBefore = 1, kAfter = 2;
  cl_mem buffer_ = nullptr, busy_ = nullptr;
  cl_event held_ = nullptr;
};

TEST_F(OpenClQueues, SeeWhatABlockingWriteInAnotherQueueHasWritten) {
  cl_command_queue other = MakeQueue();
  ASSERT_EQ(Fill(queue_, held_), CL_SUCCESS);
  std::thread sets = SetsSoon(held_);
  EXPECT_EQ(Write(queue_), CL_SUCCESS);
  EXPECT_EQ(ReadBy(other), kAfter);
  sets.join();
  cl.clReleaseCommandQueue(other);
}

TEST_F(OpenClQueues, SeeWhatABlockingWriteHasWrittenBeforeTheyWereMade) {
  cl_event never = cl.clCreateUserEvent(context_, &error_);
  ASSERT_EQ(Fill(queue_, held_), CL_SUCCESS);
  EXPECT_EQ(Write(queue_), CL_SUCCESS) << "there is no other queue that could read the old contents";
  ASSERT_EQ(Fill(queue_, never), CL_SUCCESS);
  std::thread sets = SetsSoon(held_);
  cl_command_queue other = MakeQueue();
  EXPECT_EQ(ReadBy(other), kAfter);
  sets.join();
  EXPECT_EQ(cl.clSetUserEventStatus(never, CL_COMPLETE), CL_SUCCESS) << "nothing has waited for it";
  cl.clReleaseCommandQueue(other);
  cl.clReleaseEvent(never);
}

TEST_F(OpenClQueues, SeeABlockingWriteThatIsOlderThanAUserEvent) {
  ASSERT_EQ(cl.clSetUserEventStatus(held_, CL_COMPLETE), CL_SUCCESS);
  KeepBusy();
  EXPECT_EQ(Write(queue_), CL_SUCCESS);
  cl_event never = cl.clCreateUserEvent(context_, &error_);
  ASSERT_EQ(Fill(queue_, never), CL_SUCCESS);
  cl_command_queue other = MakeQueue();
  EXPECT_EQ(ReadBy(other), kAfter);
  EXPECT_EQ(cl.clSetUserEventStatus(never, CL_COMPLETE), CL_SUCCESS) << "nothing has waited for it";
  cl.clReleaseCommandQueue(other);
  cl.clReleaseEvent(never);
}

TEST_F(OpenClQueues, SeeABlockingWriteOfAQueueThatIsGone) {
  cl_command_queue other = MakeQueue();
  std::swap(other, queue_);
  EXPECT_EQ(cl.clReleaseCommandQueue(other), CL_SUCCESS);
  KeepBusy();
  EXPECT_EQ(Write(queue_), CL_SUCCESS);
  EXPECT_EQ(cl.clReleaseCommandQueue(queue_), CL_SUCCESS);
  queue_ = MakeQueue();
  EXPECT_EQ(ReadBy(queue_), kAfter);
}

TEST_F(OpenClQueues, OutOfOrderSeeWhatABlockingWriteHasWritten) {
  cl_command_queue queue = MakeQueue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  std::swap(queue, queue_);
  EXPECT_EQ(cl.clReleaseCommandQueue(queue), CL_SUCCESS);
  std::thread sets = SetsSoon(held_);
  EXPECT_EQ(Write(queue_, &held_), CL_SUCCESS);
  EXPECT_EQ(ReadBy(queue_), kAfter);
  sets.join();
}

TEST_F(OpenClQueues, OutOfOrderMapWithoutAWaitForEarlierCommands) {
  cl_command_queue queue = MakeQueue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  ASSERT_EQ(Fill(queue, held_), CL_SUCCESS);
  for (const cl_map_flags flags : {CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION}) {
    void* mapped = cl.clEnqueueMapBuffer(queue, buffer_, CL_TRUE, flags, 0, 64, 0, nullptr, nullptr, &error_);
    ASSERT_EQ(error_, CL_SUCCESS) << flags;
    if (flags == CL_MAP_READ) EXPECT_EQ(*static_cast<int*>(mapped), kBefore);
    if (flags == CL_MAP_WRITE_INVALIDATE_REGION) std::fill_n(static_cast<int*>(mapped), 16, kAfter);
    cl_event unmapped = nullptr;
    EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue, buffer_, mapped, 0, nullptr, &unmapped), CL_SUCCESS);
    EXPECT_EQ(cl.clWaitForEvents(1, &unmapped), CL_SUCCESS);
    cl.clReleaseEvent(unmapped);
  }
  EXPECT_EQ(cl.clSetUserEventStatus(held_, CL_COMPLETE), CL_SUCCESS) << "nothing has waited for it";
  EXPECT_EQ(cl.clFinish(queue), CL_SUCCESS);
  EXPECT_EQ(ReadBy(queue_), kAfter);
  cl.clReleaseCommandQueue(queue);
}

TEST_F(OpenClQueues, OutOfOrderMapWaitsForABarrierBeforeIt) {
  cl_command_queue queue = MakeQueue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  for (const cl_map_flags flags : {CL_MAP_READ, CL_MAP_WRITE_INVALIDATE_REGION}) {
    cl_event held = cl.clCreateUserEvent(context_, &error_);
    ASSERT_EQ(Fill(queue, held), CL_SUCCESS);
    ASSERT_EQ(cl.clEnqueueBarrierWithWaitList(queue, 0, nullptr, nullptr), CL_SUCCESS);
    cl_event is_mapped = nullptr;
    void* mapped = cl.clEnqueueMapBuffer(queue, buffer_, CL_FALSE, flags, 0, 64, 0, nullptr, &is_mapped, &error_);
    ASSERT_EQ(error_, CL_SUCCESS) << flags;
    cl_int status = CL_COMPLETE;
    EXPECT_EQ(cl.clGetEventInfo(is_mapped, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
              CL_SUCCESS);
    EXPECT_NE(status, CL_COMPLETE) << flags << ": what lies before the barrier has not ended";
    EXPECT_EQ(cl.clSetUserEventStatus(held, CL_COMPLETE), CL_SUCCESS);
    EXPECT_EQ(cl.clWaitForEvents(1, &is_mapped), CL_SUCCESS);
    EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue, buffer_, mapped, 0, nullptr, nullptr), CL_SUCCESS);
    EXPECT_EQ(cl.clFinish(queue), CL_SUCCESS);
    cl.clReleaseEvent(is_mapped);
    cl.clReleaseEvent(held);
  }
  cl.clReleaseCommandQueue(queue);
}

// The address sanitizer finds a queue that is deleted while its context still lists it.
TEST_F(OpenClQueues, AQueueThatTwoThreadsReleaseIsForgottenByItsContext) {
  for (int round = 0; round < 300; ++round) {
    cl_command_queue queue = MakeQueue();
    cl.clRetainCommandQueue(queue);
    std::thread other([&] { cl.clReleaseCommandQueue(queue); });
    cl.clReleaseCommandQueue(queue);
    other.join();
    cl.clReleaseEvent(cl.clCreateUserEvent(context_, &error_));  // looks at all queues of the context
    ASSERT_EQ(error_, CL_SUCCESS);
  }
}

}  // namespace
}  // namespace weir::opencl::icd
