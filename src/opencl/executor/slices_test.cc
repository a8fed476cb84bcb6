// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/slices.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::opencl {
namespace {

TEST(Slices, SourcesThatAskOnlyForTheirGlobalIdMayBeCut) {
  EXPECT_TRUE(MayBeSliced("kernel void k(global float* a) { a[get_global_id(0)] *= 2; }"));
  for (const char* asks : {"get_group_id(0)", "get_num_groups(0)", "get_global_size(0)", "get_global_offset(0)",
                           "get_local_id(0)", "get_local_size(0)", "atomic_inc(a)", "atom_add(a, 1)", "printf(\"x\")",
                           "barrier(1)", "get_global_linear_id()", "get_enqueued_local_size(0)", "get_work_dim()"})
    EXPECT_FALSE(MayBeSliced(std::string("kernel void k(global int* a) { ") + asks + "; }")) << asks;
  EXPECT_FALSE(MayBeSliced("#define ID(x) get_##x##_id(0)"));
}

TEST(Slices, SourcesThatHideANameStayWhole) {
  for (const char* hides :
       {"get_gro\\\nup_id(0)", "get_gro\\\r\nup_id(0)", "get_gro\\ \t\nup_id(0)", "get_gro?\?/\nup_id(0)",
        "get_\\\ngro\\\nup_id(0)", "a %:%: b", "a ?\?=?\?= b", "bar\\\rrier(1)", "*(volatile global int*)a"})
    EXPECT_FALSE(MayBeSliced(std::string("kernel void k(global int* a) { *a = ") + hides + "; }")) << hides;
  for (const char* harmless : {"x ? 1 : 2", "'\\n'", "1 + \\\n 2", "\\", "x ?\?: y"})
    EXPECT_TRUE(MayBeSliced(std::string("kernel void k(global int* a) { *a = ") + harmless)) << harmless;
}

// Without a local size PoCL 3.1 takes groups of 2048 for a launch of 4096 work-items, and of 128 for a piece of 256.
TEST(Slices, SourcesThatExchangeValuesWithinAGroupStayWhole) {
  for (const char* exchanges :
       {"work_group_reduce_add(x)", "work_group_scan_inclusive_max(x)", "work_group_scan_exclusive_add(x)",
        "work_group_broadcast(x, 0)", "work_group_any(x)", "work_group_all(x)", "work_group_reduce_logical_and(x)",
        "work_group_barrier(1)", "sub_group_reduce_add(x)", "intel_sub_group_shuffle(x, 0)", "get_sub_group_id()"})
    EXPECT_FALSE(MayBeSliced(std::string("kernel void k(global int* a, int x) { *a = ") + exchanges + "; }"))
        << exchanges;
  EXPECT_TRUE(MayBeSliced("kernel __attribute__((reqd_work_group_size(4, 1, 1))) void k() {}"));
  EXPECT_TRUE(MayBeSliced("kernel __attribute__((work_group_size_hint(4, 1, 1))) void k() {}"));
}

// The pieces cover the launch, each work-item once and in order, and no group is divided.
RC_GTEST_PROP(Slices, MakeUpTheLaunch, ()) {
  Launch launch;
  launch.dimensions = static_cast<unsigned>(*rc::gen::inRange(1, 4));
  launch.has_local = *rc::gen::arbitrary<bool>();
  for (unsigned d = 0; d < launch.dimensions; ++d) {
    launch.local[d] = static_cast<std::uint64_t>(*rc::gen::inRange(1, 65));
    launch.global[d] =
        static_cast<std::uint64_t>(*rc::gen::inRange(1, 3'000)) * (launch.has_local ? launch.local[d] : 1);
    launch.offset[d] = static_cast<std::uint64_t>(*rc::gen::inRange(0, 100));
  }
  Slicer slicer(launch, static_cast<std::uint64_t>(*rc::gen::inRange(0, 70)));
  std::vector<Launch> slices;
  while (!slicer.done()) slices.push_back(slicer.Next(static_cast<std::uint64_t>(*rc::gen::inRange(0, 100'000))));
  RC_ASSERT(!slices.empty());
  unsigned along = 0;
  for (unsigned d = 0; d < launch.dimensions; ++d)
    if (slices[0].global[d] != launch.global[d]) along = d;
  std::uint64_t at = launch.offset[along];
  for (const Launch& slice : slices) {
    for (unsigned d = 0; d < launch.dimensions; ++d) {
      if (launch.has_local) RC_ASSERT(slice.global[d] % launch.local[d] == 0);
      if (d != along) RC_ASSERT(slice.offset[d] == launch.offset[d] && slice.global[d] == launch.global[d]);
    }
    RC_ASSERT(slice.global[along] > 0);
    RC_ASSERT(slice.offset[along] == at);
    at += slice.global[along];
  }
  RC_ASSERT(at == launch.offset[along] + launch.global[along]);
}

}  // namespace
}  // namespace weir::opencl
