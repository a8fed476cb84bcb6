// SPDX-License-Identifier: Apache-2.0
// The published encoding of a form, and the cost limit of a hostile form.
#include "kernel/access.h"

#include <gtest/gtest.h>

#include "kernel/cuttable.h"
#include "kernel/expr_table.h"
#include "tests/harness/golden.h"

namespace weir::kernel {
namespace {

constexpr const char* kGoldenAccess = "access_v1.hex";

/// A program of two kernels with a value in every field.
std::vector<KernelAccess> KnownProgram() {
  KernelAccess scale{.kernel = "scale",
                     .verdict = AccessVerdict::kGuarded,
                     .reason = "one of two",
                     .line = 7,
                     .asks = kAsksGlobalSize | kAsksLinearId,
                     .loops = 1};
  scale.arguments = {{.kind = ArgumentKind::kBuffer, .name = "out"},
                     {.kind = ArgumentKind::kScalar, .bytes = 4, .name = "n"},
                     {.kind = ArgumentKind::kLocal}};
  scale.exprs = {{.op = ExprOp::kGlobalId},
                 {.op = ExprOp::kArgument, .bits = 32, .a = 1},
                 {.op = ExprOp::kSExt, .a = 1},
                 {.op = ExprOp::kConstant, .value = -4},
                 {.op = ExprOp::kConstant, .value = 300},
                 {.op = ExprOp::kLoop},
                 {.op = ExprOp::kMul, .a = 5, .b = 4},
                 {.op = ExprOp::kAdd, .b = 6},
                 {.op = ExprOp::kSLt, .b = 2},
                 {.op = ExprOp::kSelect, .a = 7, .b = 3, .c = 8},
                 {.op = ExprOp::kChoice, .a = 9, .b = 7, .value = 1}};
  scale.tests = {{.loop = 0, .test = ExprOp::kSLe, .descending = true, .start = 0, .step = 3, .bound = 2}};
  scale.contexts.push_back({.parent = 0, .condition = 8, .holds = false});
  scale.accesses = {{.argument = 0, .write = true, .may = true, .context = 1, .offset = 10, .bytes = 4, .line = 9},
                    {.argument = 0, .write = false, .may = false, .context = 0, .offset = 9, .bytes = 4, .line = 0}};
  KernelAccess count{.kernel = "count", .verdict = AccessVerdict::kRefuse, .reason = "atomics", .line = 300};
  count.arguments = {{.kind = ArgumentKind::kBuffer, .name = "bins"}};
  return {scale, count};
}

TEST(AccessCodec, AProgramIsEncodedIntoItsGoldenBytes) {
  testing::ExpectGolden(kGoldenAccess, EncodeAccesses(KnownProgram()));
}

TEST(AccessCodec, GoldenBytesAreDecoded) {
  const auto decoded = DecodeAccesses(testing::ReadGolden(kGoldenAccess).bytes);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, KnownProgram());
}

TEST(AccessCodec, TruncatedOrOverlongBytesAreRefused) {
  const std::vector<std::byte> bytes = testing::ReadGolden(kGoldenAccess).bytes;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = DecodeAccesses(std::span(bytes).first(size));
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error().code, Errc::kProtocol) << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DecodeAccesses(longer));
}

/// The maximum number of nested conditions, with the maximum of expressions, and accesses that alternate between
/// contexts, so that each access is evaluated again.
KernelAccess CostlyKernel() {
  KernelAccess access{.kernel = "costly", .verdict = AccessVerdict::kGuarded};
  access.arguments = {{.kind = ArgumentKind::kBuffer}};
  ExprTable table;
  std::vector<std::uint16_t> row{table.Leaf(ExprOp::kGlobalId, 0), table.Leaf(ExprOp::kGlobalId, 1),
                                 table.Leaf(ExprOp::kGlobalId, 2)};
  const auto at = row[0], four = table.Constant(4), bound = table.Constant(1'000'000);
  // A row takes its operands from the row before, so that the last row depends on all of them.
  for (std::int64_t level = 0; level < 80; ++level) {
    std::vector<std::uint16_t> next;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto mixed = table.Binary(ExprOp::kAdd, row[i % row.size()], row[(i + 1) % row.size()]);
      next.push_back(table.Binary(ExprOp::kSMax, mixed, table.Constant(level % 3)));
    }
    row = next;
    if (table.exprs().size() > 1700) break;
  }
  for (std::uint16_t i = 1; i < kAccessContextsMax; ++i) {
    const auto sum = table.Binary(ExprOp::kAdd, row[i % row.size()], table.Constant(-i));
    access.contexts.push_back({.parent = static_cast<std::uint16_t>(i - 1),
                               .condition = table.Binary(ExprOp::kSLt, sum, bound),
                               .holds = true});
  }
  for (std::uint16_t i = 0; i < kAccessesMax; ++i)
    access.accesses.push_back({.argument = 0,
                               .context = static_cast<std::uint16_t>(kAccessContextsMax - 1 - i),
                               .offset = at,
                               .bytes = four});
  access.exprs = table.exprs();
  return access;
}

// After too many steps the rest is unknown, so the whole buffer is assumed, and the launch is not cut.
TEST(AccessCost, ATooExpensiveFormIsUnknown) {
  KernelAccess access = CostlyKernel();
  ASSERT_TRUE(CheckAccess(access));
  const std::array<LaunchArgument, 1> arguments{LaunchArgument{.memory = 1, .bytes = 4096}};
  const KernelLaunch launch{.dimensions = 3, .global = {64, 8, 8}, .local = {8, 2, 1}, .arguments = arguments};
  const PartRange part{.dimension = 0, .first = 1, .end = 2};
  const Extent everything{.bytes = 4096}, own{.begin = 8, .bytes = 11};
  auto footprint = FootprintOf(access, launch, part);
  ASSERT_TRUE(footprint);
  EXPECT_EQ((*footprint)[0].reads, std::vector{everything});
  access.accesses.back().write = true;
  EXPECT_FALSE(Cuttable(access, launch)[0].yes);
  // A single access is known.
  access.accesses.erase(access.accesses.begin(), access.accesses.end() - 1);
  footprint = FootprintOf(access, launch, part);
  ASSERT_TRUE(footprint);
  ASSERT_EQ((*footprint)[0].writes.size(), 1U);
  EXPECT_EQ((*footprint)[0].writes[0].begin, own.begin);
  EXPECT_EQ((*footprint)[0].writes[0].bytes, own.bytes);
}

}  // namespace
}  // namespace weir::kernel
