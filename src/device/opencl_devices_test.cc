// SPDX-License-Identifier: Apache-2.0
#include "device/opencl_devices.h"

#include <gtest/gtest.h>

namespace weir::device {
namespace {

TEST(OpenClDevices, AreReadFromTheExecutorsList) {
  const auto devices = ParseOpenClDevices(
      "libpocl.so.2\t0\tAuthenticAMD\tpthread-AMD EPYC\t2\t9489833984\t3.1\n"
      "weir-executor: cannot open an OpenCL driver: libgone.so\n"
      "libx.so\t1\tX\tsome\tmany\t1\n");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].library, "libpocl.so.2");
  EXPECT_EQ(devices[0].name, "pthread-AMD EPYC");
  EXPECT_EQ(devices[0].compute_units, 2U);
  EXPECT_EQ(devices[0].memory_bytes, 9489833984U);
}

TEST(OpenClDevices, AMissingProgramIsReported) {
  EXPECT_EQ(ListOpenClDevices("").error().code, Errc::kUnavailable);
  EXPECT_FALSE(ListOpenClDevices("/nowhere/weir-executor"));
}

}  // namespace
}  // namespace weir::device
