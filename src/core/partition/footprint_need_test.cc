// SPDX-License-Identifier: Apache-2.0
#include "core/partition/footprint_need.h"

#include <gtest/gtest.h>

#include "tests/harness/mover_kernel.h"

namespace weir::core {
namespace {

constexpr std::uint64_t kSliceAlignment = 16;

TEST(FootprintNeed, DataThatEveryPartReadsCountsAsCommon) {
  kernel::Mover mover{.c = 0};
  mover.arguments = {kernel::LaunchArgument{.memory = 1, .bytes = 4},
                     kernel::LaunchArgument{.memory = 2, .bytes = 4000}};
  mover.Prepare(10, 4);
  const FootprintNeed need(mover.kernel.access, mover.launch, kSliceAlignment);
  ASSERT_TRUE(need.Cuttable(0));
  const PartNeed part = need.Of({0, 2, 5});
  EXPECT_EQ(part.alike.count, 4U);
  EXPECT_EQ(part.sent.count, 4U);
  EXPECT_EQ(part.returned.count, 48U);
  EXPECT_EQ(part.device.count, 52U);
  EXPECT_EQ(need.AlikeAlong(0).size(), 1U);
}

}  // namespace
}  // namespace weir::core
