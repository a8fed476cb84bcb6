// SPDX-License-Identifier: Apache-2.0
// The argument tests against drivers that follow the specification, that behave like PoCL, and that misbehave.
#include "opencl/executor/arg_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace weir::opencl {
namespace {

enum class Really { kPair, kLarge, kSampler, kRenamedSampler, kImage, kBuffer };
enum class Manners { kBySpecification, kLikePocl, kAcceptsAll };

/// A driver with kernels of the program under test and of the probe's program.
struct FakeDriver {
  static inline Manners manners = Manners::kBySpecification;
  static inline bool builds = true;
  static inline int kernels_made = 0;
  static inline std::vector<Really> args;
  static inline char of_probe = 0, of_client = 0, anything = 0;

  static cl_int Set(const std::vector<Really>& all, cl_uint index, std::size_t size, const void* value) {
    if (manners == Manners::kAcceptsAll) return CL_SUCCESS;
    const bool pocl = manners == Manners::kLikePocl;
    const Really what = all.at(index);
    const bool handle = what != Really::kPair && what != Really::kLarge;
    if (value == nullptr) {
      const bool buffer = what == Really::kBuffer || (pocl && what == Really::kRenamedSampler);
      return !buffer ? CL_INVALID_ARG_VALUE : size == sizeof(void*) ? CL_SUCCESS : CL_INVALID_ARG_SIZE;
    }
    if (handle && size != sizeof(void*)) return CL_INVALID_ARG_SIZE;
    if (!handle) return pocl || size == (what == Really::kPair ? 8 : 24) ? CL_SUCCESS : CL_INVALID_ARG_SIZE;
    void* given = nullptr;
    std::memcpy(&given, value, sizeof given);
    if (given != nullptr) ADD_FAILURE() << "a handle of nothing";
    return pocl || what == Really::kBuffer ? CL_SUCCESS : CL_INVALID_SAMPLER;
  }

  static const cl_icd_dispatch& Table() {
    static cl_icd_dispatch table = [] {
      cl_icd_dispatch t{};
      t.clCreateContext = [](const cl_context_properties*, cl_uint, const cl_device_id*,
                             void(CL_CALLBACK*)(const char*, const void*, std::size_t, void*), void*, cl_int* error) {
        *error = CL_SUCCESS;
        return reinterpret_cast<cl_context>(&anything);
      };
      t.clReleaseContext = [](cl_context) -> cl_int { return CL_SUCCESS; };
      t.clCreateProgramWithSource = [](cl_context, cl_uint, const char**, const std::size_t*, cl_int* error) {
        *error = CL_SUCCESS;
        return reinterpret_cast<cl_program>(&of_probe);
      };
      t.clBuildProgram = [](cl_program, cl_uint, const cl_device_id*, const char*,
                            void(CL_CALLBACK*)(cl_program, void*),
                            void*) -> cl_int { return builds ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE; };
      t.clReleaseProgram = [](cl_program) -> cl_int { return CL_SUCCESS; };
      t.clCreateKernel = [](cl_program program, const char*, cl_int* error) {
        ++kernels_made;
        *error = CL_SUCCESS;
        return reinterpret_cast<cl_kernel>(program);
      };
      t.clReleaseKernel = [](cl_kernel) -> cl_int {
        --kernels_made;
        return CL_SUCCESS;
      };
      t.clSetKernelArg = [](cl_kernel kernel, cl_uint index, std::size_t size, const void* value) -> cl_int {
        static const std::vector<Really> probe{Really::kSampler, Really::kRenamedSampler, Really::kImage};
        return Set(kernel == reinterpret_cast<cl_kernel>(&of_probe) ? probe : args, index, size, value);
      };
      t.clGetDeviceInfo = [](cl_device_id, cl_device_info, std::size_t, void*, std::size_t*) -> cl_int {
        return CL_INVALID_VALUE;
      };
      t.clGetKernelInfo = [](cl_kernel, cl_kernel_info, std::size_t, void* value, std::size_t*) -> cl_int {
        const auto count = static_cast<cl_uint>(args.size());
        std::memcpy(value, &count, sizeof count);
        return CL_SUCCESS;
      };
      t.clGetKernelArgInfo = [](cl_kernel, cl_uint, cl_kernel_arg_info, std::size_t, void*, std::size_t*) -> cl_int {
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
      };
      return t;
    }();
    return table;
  }
};

class ArgTypes : public ::testing::Test {
 protected:
  void SetUp() override {
    FakeDriver::manners = Manners::kBySpecification;
    FakeDriver::builds = true;
    FakeDriver::args = {Really::kPair,           Really::kLarge, Really::kSampler,
                        Really::kRenamedSampler, Really::kImage, Really::kBuffer};
  }
  void TearDown() override { EXPECT_EQ(FakeDriver::kernels_made, 0); }
  bool IsValue(Really what, std::size_t size) {
    return probe_.IsValue(FakeDriver::Table(), nullptr, Program(), "k", static_cast<cl_uint>(what), size);
  }
  bool IsSampler(Really what) {
    return probe_.IsSampler(FakeDriver::Table(), nullptr, Program(), "k", static_cast<cl_uint>(what));
  }
  bool IsBuffer(Really what) {
    return probe_.IsBuffer(FakeDriver::Table(), nullptr, Program(), "k", static_cast<cl_uint>(what));
  }
  static cl_program Program() { return reinterpret_cast<cl_program>(&FakeDriver::of_client); }

  static constexpr Really kHandles[] = {Really::kSampler, Really::kRenamedSampler, Really::kImage, Really::kBuffer};
  ArgProbe probe_;
};

TEST_F(ArgTypes, DistinguishesValuesFromHandlesByTheSpecification) {
  EXPECT_TRUE(IsValue(Really::kPair, 8));
  EXPECT_TRUE(IsValue(Really::kLarge, 24));
  for (const Really handle : kHandles)
    for (const std::size_t size : {1, 4, 8, 16, 24, 100}) EXPECT_FALSE(IsValue(handle, size));
  EXPECT_TRUE(IsSampler(Really::kRenamedSampler));
  EXPECT_FALSE(IsSampler(Really::kPair));
  EXPECT_FALSE(IsSampler(Really::kBuffer));
  EXPECT_TRUE(IsBuffer(Really::kBuffer));
  EXPECT_FALSE(IsBuffer(Really::kSampler));
}

TEST_F(ArgTypes, DistinguishesValuesFromHandlesOnPocl) {
  FakeDriver::manners = Manners::kLikePocl;
  EXPECT_TRUE(IsValue(Really::kPair, 8));
  EXPECT_TRUE(IsValue(Really::kLarge, 24));
  for (const Really handle : kHandles)
    for (const std::size_t size : {1, 4, 8, 16, 24, 100}) EXPECT_FALSE(IsValue(handle, size));
  EXPECT_FALSE(IsSampler(Really::kRenamedSampler));
  EXPECT_TRUE(IsBuffer(Really::kBuffer));
}

TEST_F(ArgTypes, ADriverThatAcceptsAllShowsNothing) {
  FakeDriver::manners = Manners::kAcceptsAll;
  for (std::uint32_t what = 0; what < FakeDriver::args.size(); ++what) {
    EXPECT_FALSE(IsValue(static_cast<Really>(what), 8));
    EXPECT_FALSE(IsValue(static_cast<Really>(what), 24));
    EXPECT_FALSE(IsSampler(static_cast<Really>(what)));
    EXPECT_FALSE(IsBuffer(static_cast<Really>(what)));
  }
}

TEST_F(ArgTypes, WithoutTestsNothingIsShown) {
  FakeDriver::builds = false;
  EXPECT_FALSE(IsValue(Really::kPair, 8));
  EXPECT_FALSE(IsSampler(Really::kSampler));
  EXPECT_FALSE(IsBuffer(Really::kBuffer));
}

TEST_F(ArgTypes, ADriverWithoutAnswersLeavesAllUnknown) {
  const auto takes = WhatArgsTake(FakeDriver::Table(), reinterpret_cast<cl_kernel>(&FakeDriver::of_client));
  EXPECT_EQ(takes, std::vector<ArgTakes>(6, ArgTakes::kUntold));
}

}  // namespace
}  // namespace weir::opencl
