// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/bulk_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::opencl::icd {
namespace {

TEST(BulkCopy, CopiesEveryByteAndNoOther) {
  constexpr std::size_t kRoom = (4 << 20) + 512;
  std::vector<std::byte> from(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = static_cast<std::byte>(i * 131 + i / 256);
  for (const std::size_t from_at : {0, 1, 16, 63})
    for (const std::size_t to_at : {0, 1, 16, 63})
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{5}, std::size_t{4 << 20}, std::size_t{(4 << 20) + 77}}) {
        std::vector<std::byte> to(kRoom, std::byte{0xEE});
        (bytes % 2 == 0 ? BulkCopy : StreamCopy)(to.data() + to_at, from.data() + from_at, bytes);
        ASSERT_TRUE(std::equal(from.begin() + static_cast<std::ptrdiff_t>(from_at),
                               from.begin() + static_cast<std::ptrdiff_t>(from_at + bytes),
                               to.begin() + static_cast<std::ptrdiff_t>(to_at)));
        ASSERT_TRUE(to_at == 0 || to[to_at - 1] == std::byte{0xEE});
        ASSERT_EQ(to[to_at + bytes], std::byte{0xEE});
      }
}

}  // namespace
}  // namespace weir::opencl::icd
