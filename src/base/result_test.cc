// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace weir {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(Errc::kInvalidArgument, "odd");
  return n / 2;
}
Result<int> Quarter(int n) {
  WEIR_TRY(const int half, Half(n));
  return Half(half);
}

TEST(Result, ReturnsTheFirstError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).error().message, "odd");
  EXPECT_EQ(Quarter(7).error().code, Errc::kInvalidArgument);
}

TEST(Result, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(4);
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 4);
}

TEST(Errc, EveryCodeHasItsOwnNameAndANonZeroExitCode) {
  std::set<std::string_view> names;
  for (const ErrcEntry& entry : kErrcTable) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_NE(entry.exit_code, 0) << entry.name;
    EXPECT_GE(entry.http_status, 400) << entry.name;
  }
}

TEST(ResultDeathTest, ValueOfAnErrorIsABrokenInvariant) {
  const Result<int> failed = Half(1);
  EXPECT_DEATH(static_cast<void>(failed.value()), "broken invariant");
}

}  // namespace
}  // namespace weir
