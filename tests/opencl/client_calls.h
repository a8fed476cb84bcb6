// SPDX-License-Identifier: Apache-2.0
// The client's library against a real executor on PoCL: what programs rely on, and what each call costs in messages and
// round trips (the table of docs/protocol/opencl.md). Calls go through the dispatch table, as a loader's do.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "opencl/icd/link.h"
#include "platform/unix_socket.h"

namespace weir::opencl::icd {

inline const cl_icd_dispatch& cl = kDispatch;

inline constexpr const char* kSource = R"(
kernel void add(global const int* a, global int* b, int n) { int i = get_global_id(0); b[i] = a[i] + n; }
kernel void sum(global int* out, local int* scratch) {
  scratch[get_local_id(0)] = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) { int s = 0; for (int i = 0; i < (int)get_local_size(0); ++i) s += scratch[i]; out[get_group_id(0)] = s; }
}
kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(global int* out) { out[get_global_id(0)] = get_local_size(0); }
kernel void slow(global int* out, int n) { for (int i = 0; i < n; ++i) out[i % 16] = out[(i + 1) % 16] + i; }
)";

/// Its file is there a moment before it listens.
inline void AwaitListener(const std::string& socket) {
  for (int attempt = 0; !platform::ConnectSeqPacket(socket) && attempt < 1000; ++attempt) ::usleep(20'000);
}

/// Memory is elastic, and contents are sent away all the time: each test holds all the same, but for what it says of
/// buffers that are ranges of the arena.
inline bool MemoryIsElastic() { return ::getenv("WEIR_TEST_ELASTIC") != nullptr; }

/// And every launch that can be cut is.
inline bool InParts() { return std::string_view(::getenv("WEIR_TEST_ELASTIC")) == "parts"; }

/// The executor is on another machine: the tests reach it by way of a relay and a portal.
inline bool IsRemote() { return ::getenv("WEIR_TEST_PORTAL") != nullptr; }

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cl.clGetPlatformIDs(1, &platform_, nullptr), CL_SUCCESS);
    ASSERT_EQ(cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_ALL, 1, &device_, nullptr), CL_SUCCESS);
    context_ = cl.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &error_);
    ASSERT_EQ(error_, CL_SUCCESS);
    queue_ = cl.clCreateCommandQueue(context_, device_, 0, &error_);
    ASSERT_EQ(error_, CL_SUCCESS);
  }
  void TearDown() override {
    if (program_ != nullptr) cl.clReleaseProgram(program_);
    EXPECT_EQ(cl.clReleaseCommandQueue(queue_), CL_SUCCESS);
    EXPECT_EQ(cl.clReleaseContext(context_), CL_SUCCESS);
  }

  cl_program Program(const char* source, const char* options = nullptr) {
    cl_program program = cl.clCreateProgramWithSource(context_, 1, &source, nullptr, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    error_ = cl.clBuildProgram(program, 0, nullptr, options, nullptr, nullptr);
    return program;
  }
  cl_kernel Kernel(const char* name) {
    if (program_ == nullptr) program_ = Program(kSource);
    cl_kernel kernel = cl.clCreateKernel(program_, name, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    return kernel;
  }
  cl_mem Buffer(std::size_t bytes, void* host = nullptr, cl_mem_flags flags = 0) {
    cl_mem buffer = cl.clCreateBuffer(context_, flags | (host != nullptr && flags == 0 ? CL_MEM_COPY_HOST_PTR : 0),
                                      bytes, host, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    return buffer;
  }
  template <typename T>
  cl_int Set(cl_kernel kernel, cl_uint index, const T& value) {
    return cl.clSetKernelArg(kernel, index, sizeof value, &value);
  }
  cl_int Launch(cl_kernel kernel, std::size_t items, cl_event* event = nullptr, cl_command_queue queue = nullptr) {
    return cl.clEnqueueNDRangeKernel(queue != nullptr ? queue : queue_, kernel, 1, nullptr, &items, nullptr, 0, nullptr,
                                     event);
  }
  std::vector<int> Read(cl_mem buffer, std::size_t count) {
    std::vector<int> values(count, -1);
    EXPECT_EQ(
        cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, count * sizeof(int), values.data(), 0, nullptr, nullptr),
        CL_SUCCESS);
    return values;
  }

  struct Cost {
    std::uint64_t messages = 0, round_trips = 0;
    bool operator==(const Cost&) const = default;
  };
  friend void PrintTo(const Cost& cost, std::ostream* out) {
    *out << cost.messages << " messages, " << cost.round_trips << " round trips";
  }
  static Cost CostOf(const std::function<void()>& calls) {
    LinkStats& stats = Link::Existing()->stats();
    const Cost before{stats.messages.load(), stats.round_trips.load()};
    calls();
    return {stats.messages.load() - before.messages, stats.round_trips.load() - before.round_trips};
  }

  cl_platform_id platform_ = nullptr;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  cl_int error_ = CL_SUCCESS;
};

}  // namespace weir::opencl::icd
