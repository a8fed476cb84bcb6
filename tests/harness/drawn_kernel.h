// SPDX-License-Identifier: Apache-2.0
// The accesses of a kernel, for tests without the kernel itself.
#pragma once

#include <gtest/gtest.h>

#include "kernel/expr_table.h"

namespace weir::kernel {

/// A kernel that is written down by hand.
struct DrawnKernel {
  ExprTable table;
  KernelAccess access{.kernel = "drawn", .verdict = AccessVerdict::kExact};

  std::uint16_t Id(std::uint16_t d) { return table.Leaf(ExprOp::kGlobalId, d); }
  std::uint16_t Plus(std::uint16_t a, std::uint16_t b) { return table.Binary(ExprOp::kAdd, a, b); }
  std::uint16_t By(std::uint16_t a, std::uint16_t b) { return table.Binary(ExprOp::kMul, a, b); }
  std::uint16_t Scaled(std::uint16_t a, std::int64_t b) { return By(a, table.Constant(b, table.BitsOf(a))); }
  std::uint16_t Int(std::uint16_t argument) { return table.Convert(ExprOp::kSExt, table.Argument(argument, 32), 64); }
  std::uint16_t Buffer() {
    access.arguments.push_back({.kind = ArgumentKind::kBuffer});
    return static_cast<std::uint16_t>(access.arguments.size() - 1);
  }
  std::uint16_t Scalar() {
    access.arguments.push_back({.kind = ArgumentKind::kScalar, .bytes = 4});
    return static_cast<std::uint16_t>(access.arguments.size() - 1);
  }
  std::uint16_t Where(std::uint16_t condition, std::uint16_t parent = 0) {
    access.contexts.push_back({.parent = parent, .condition = condition});
    return static_cast<std::uint16_t>(access.contexts.size() - 1);
  }
  void Touch(std::uint16_t argument, bool write, std::uint16_t offset, std::uint16_t context = 0) {
    access.accesses.push_back(
        {.argument = argument, .write = write, .context = context, .offset = offset, .bytes = table.Constant(4)});
  }
  const KernelAccess& Done() {
    access.exprs = table.exprs();
    EXPECT_TRUE(CheckAccess(access));
    return access;
  }
};

}  // namespace weir::kernel
