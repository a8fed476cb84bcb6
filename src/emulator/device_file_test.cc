// SPDX-License-Identifier: Apache-2.0
#include "emulator/device_file.h"

#include <gtest/gtest.h>

namespace weir::emulator {
namespace {

TEST(DeviceFile, EveryKeyIsRead) {
  const auto read = ReadDevices(R"(
[[device]]
name = "Card"
count = 2
memory = "8 GiB"
arbitration = "time-slice"
slice = "1.5 ms"
switch_cost = "50 us"
launch_overhead = "5 us"
units = 16
queue_depth = 7
link = { in = "12 GB/s", out = "6 GB/s", latency = "10 us" }
clock = { idle = "100 ms", rise = "5 ms", low = 0.5 }
refresh = 144
[[device]]
uuid = "0f0f0f0f-1111-2222-3333-444444444444"
pci = "0000:65:00.0"
[[program]]
name = "glmark2*"
frame = "4 ms"
drawn = false
[frames]
factor = 0.5
[[kernel]]
name = "gemm_*"
fixed = "5 us"
per_item = "0.5 ns"
units = 4
computed = false
[[kernel]]
name = "sort?"
[kernels]
factor = 2.0
)",
                                "f");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->devices.size(), 3U);
  const core::DeviceConfig& model = read->devices[1].model;
  EXPECT_EQ(read->devices[1].name, "Card");
  EXPECT_EQ(model.memory, MiB(8192));
  EXPECT_EQ(model.arbitration, core::Arbitration::kTimeSlice);
  EXPECT_EQ(model.slice, microseconds(1500));
  EXPECT_EQ(model.switch_cost, microseconds(50));
  EXPECT_EQ(model.units, 16U);
  EXPECT_EQ(model.queue_depth, 7U);
  EXPECT_EQ(model.in_bytes_per_s, 12'000'000'000U);
  EXPECT_EQ(model.link_latency, microseconds(10));
  EXPECT_EQ(model.ramp.low_permille, 500U);
  EXPECT_EQ(read->devices[1].refresh, 144);
  EXPECT_NE(read->devices[0].uuid, read->devices[1].uuid);
  EXPECT_NE(read->devices[0].pci, read->devices[1].pci);
  EXPECT_EQ(read->devices[2].pci, "0000:65:00.0");
  const ProgramCost& known = CostOf(read->programs, "glmark2-es2");
  EXPECT_EQ(known.frame, milliseconds(4));
  EXPECT_FALSE(known.drawn);
  const ProgramCost& other = CostOf(read->programs, "game");
  EXPECT_FALSE(other.frame);
  EXPECT_EQ(other.factor, 0.5);
  ASSERT_EQ(read->kernels.size(), 2U);
  EXPECT_EQ(read->kernels[0].name, "gemm_*");
  EXPECT_EQ(read->kernels[0].fixed, microseconds(5));
  EXPECT_EQ(read->kernels[0].per_item_ns, 0.5);
  EXPECT_EQ(read->kernels[0].units, 4U);
  EXPECT_FALSE(read->kernels[0].computed);
  EXPECT_FALSE(read->kernels[1].fixed);
  EXPECT_TRUE(read->kernels[1].computed);
  EXPECT_EQ(read->kernel_factor, 2);
}

TEST(DeviceFile, ATimePerItemAloneIsACost) {
  const auto read = ReadDevices("[[device]]\n[[kernel]]\nname = \"a\"\nper_item = \"1 ns\"\n", "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->kernels[0].fixed, Duration{0});
}

TEST(DeviceFile, FaultsAreThoseOfTheirDevice) {
  const auto read = ReadDevices(R"(
[[device]]
count = 2
[[fault]]
kind = "lost"
after = 200
[[fault]]
device = 1
kind = "hang"
at = "1.5 s"
for = "2 s"
[[fault]]
device = 1
kind = "slow"
after = 0
count = 3
extra = "30 s"
)",
                                "f");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->devices[0].faults.size(), 1U);
  EXPECT_EQ(read->devices[0].faults[0].kind, core::DeviceFault::Kind::kLost);
  EXPECT_EQ(read->devices[0].faults[0].after, 200U);
  ASSERT_EQ(read->devices[1].faults.size(), 2U);
  EXPECT_FALSE(read->devices[1].faults[0].after);
  EXPECT_EQ(read->devices[1].faults[0].at, milliseconds(1500));
  EXPECT_EQ(read->devices[1].faults[0].lasts, seconds(2));
  EXPECT_EQ(read->devices[1].faults[1].after, 0U);
  EXPECT_EQ(read->devices[1].faults[1].count, 3U);
  EXPECT_EQ(read->devices[1].faults[1].extra, seconds(30));
  for (const char* kind : {"reset", "no-memory", "no-account"}) {
    const auto other = ReadDevices(std::string("[[device]]\n[[fault]]\nat = \"0 s\"\nkind = \"") + kind + "\"\n", "f");
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ(NameOf(other->devices[0].faults[0].kind), kind);
  }
}

TEST(DeviceFile, KernelsFitIntoAMessage) {
  std::string text = "[[device]]\n";
  for (std::size_t i = 0; i < Emulated::kKernelsMax; ++i) text += "[[kernel]]\nname = \"a\"\n";
  EXPECT_TRUE(ReadDevices(text, "f"));
  const auto more = ReadDevices(text + "[[kernel]]\nname = \"a\"\n", "f");
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("201 kernels: at most 200"), std::string::npos) << more.error().message;
}

TEST(DeviceFile, AFaultIsToldWithItsPlaceAndReason) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"", "f:1:1: no [[device]]"},
      {"[[device]]\nname = 3\n", "f:2:8: 'name' is not a text"},
      {"[[device]]\nmemory = \"8 GB\"\n", "f:2:10: 'memory' is not a size such as \"8 GiB\": \"8 GB\""},
      {"[[device]]\nslice = \"-1 ms\"\n", "f:2:9: 'slice' is out of range: \"-1 ms\""},
      {"[[device]]\nunits = 0\n", "f:2:9: 'units' is 0: give 1 to 1024"},
      {"[[device]]\nunits = 1.5\n", "f:2:9: 'units' is not a whole number"},
      {"[[device]]\nmemmory = \"1 GiB\"\n", "unknown key 'memmory'"},
      {"[[device]]\narbitration = \"lifo\"\n", "f:2:15: 'arbitration' is not one of: fifo, time-slice, concurrent"},
      {"[[device]]\nslice = \"9 us\"\n", "f:2:9: 'slice' is less than 10 us"},
      {"[[device]]\nname = \"a\\tb\"\n", "f:2:8: 'name' has a control character"},
      {"[[device]]\nuuid = \"GPU-0f0f0f0f-1111-2222-3333-444444444444\"\n", "f:2:8: 'uuid' is not as \""},
      {"[[device]]\nuuid = \"1\"\n", "f:2:8: 'uuid' is not as \""},
      {"[[device]]\npci = \"01:00.0\"\n", "f:2:7: 'pci' is not as \"0000:01:00.0\""},
      {"[[device]]\ncount = 2\nuuid = \"0f0f0f0f-1111-2222-3333-444444444444\"\n",
       "several devices in a row cannot have one"},
      {"[[device]]\n[[program]]\nframe = \"1 ms\"\n", "needs a 'name'"},
      {"[[device]]\n[[program]]\nname = \"a\"\ndrawn = false\n", "needs a 'frame'"},
      {"[[device]]\npci=\"0000:01:00.0\"\n[[device]]\npci=\"0000:01:00.0\"\n", "two devices have one"},
      {"[[device]]\n[[kernel]]\nfixed = \"1 ms\"\n", "f:2:1: a [[kernel]] needs a 'name'"},
      {"[[device]]\n[[kernel]]\nname = \"a b\"\n", "a [[kernel]] needs a 'name': 1 to 64 letters"},
      {"[[device]]\n[[kernel]]\nname = \"a\"\ncomputed = false\n", "needs 'fixed' or 'per_item'"},
      {"[[device]]\n[[kernel]]\nname = \"a\"\nper_item = \"2 s\"\n", "f:4:12: 'per_item' is out of range"},
      {"[[device]]\n[[kernel]]\nname = \"a\"\nper_item = 2\n", "f:4:12: 'per_item' is not a time such as \"0.5 ns\""},
      {"[[device]]\n[kernel]\nname = \"a\"\n", "'kernel' is not a list of tables: write [[kernel]]"},
      {"[[device]]\n[kernels]\nfactor = -1\n", "f:3:10: 'factor' is -1"},
      {"[[device]]\n[[fault]]\nafter = 1\n", "f:2:1: a [[fault]] needs a 'kind', one of: lost, reset, hang, slow"},
      {"[[device]]\n[[fault]]\nkind = \"fire\"\nafter = 1\n", "f:3:8: a [[fault]] needs a 'kind', one of: lost"},
      {"[[device]]\n[[fault]]\nkind = \"lost\"\n", "f:2:1: a [[fault]] needs one of 'after' and 'at'"},
      {"[[device]]\n[[fault]]\nkind = \"lost\"\nafter = 1\nat = \"1 s\"\n", "'after' and 'at', and not both"},
      {"[[device]]\n[[fault]]\nkind = \"lost\"\nafter = -1\n", "f:4:9: 'after' is -1: give 0 to 1e+09"},
      {"[[device]]\n[[fault]]\nkind = \"lost\"\nafter = 1\nfor = \"1 s\"\n", "f:5:7: unknown key 'for'"},
      {"[[device]]\n[[fault]]\nkind = \"hang\"\nafter = 1\nfor = \"0 s\"\n", "f:5:7: 'for' is zero"},
      {"[[device]]\n[[fault]]\nkind = \"hang\"\nafter = 1\ncount = 1\n", "f:5:9: unknown key 'count'"},
      {"[[device]]\n[[fault]]\nkind = \"slow\"\nafter = 1\n", "f:2:1: a fault of the kind 'slow' needs an 'extra'"},
      {"[[device]]\n[[fault]]\nkind = \"no-memory\"\nafter = 1\ncount = 0\n", "f:5:9: 'count' is 0: give 1"},
      {"[[device]]\n[[fault]]\ndevice = 1\nkind = \"lost\"\nafter = 1\n", "f:2:1: a fault of device 1: there is"},
      {"[[device]\n", "f:1:"}};
  for (const auto& [text, why] : kFaults) {
    const auto read = ReadDevices(text, "f");
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().message.find(why), std::string::npos) << read.error().message << "\nfor " << text;
  }
}

TEST(DeviceFile, PatternsMatchAsShellsDo) {
  EXPECT_TRUE(Matches("*", ""));
  EXPECT_TRUE(Matches("gl*2", "glmark2"));
  EXPECT_TRUE(Matches("gl?ark2", "glmark2"));
  EXPECT_TRUE(Matches("*a*b*", "xaxxbx"));
  EXPECT_FALSE(Matches("gl*2", "glmark2-es2x"));
  EXPECT_FALSE(Matches("", "a"));
  EXPECT_FALSE(Matches("?", ""));
}

}  // namespace
}  // namespace weir::emulator
