// SPDX-License-Identifier: Apache-2.0
// Table of expressions without duplicates: equal expressions have one index, and cancel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel/access.h"

namespace weir::kernel {

class ExprTable {
 public:
  /// An expression that does not fit, or would be too deep, becomes data.
  std::uint16_t Add(const Expr& expr) {
    const auto found = std::find(exprs_.begin(), exprs_.end(), expr);
    if (found != exprs_.end()) return static_cast<std::uint16_t>(found - exprs_.begin());
    std::uint16_t depth = 0;
    ForOperands(expr, [&](std::uint16_t operand) { depth = std::max(depth, depths_[operand]); });
    ++depth;
    if ((Full() || depth > kAccessDepthMax) && expr.op != ExprOp::kData) return Data(kernel::BitsOf(expr));
    exprs_.push_back(expr);
    depths_.push_back(depth);
    return static_cast<std::uint16_t>(exprs_.size() - 1);
  }
  std::uint16_t Constant(std::int64_t value, unsigned bits = 64) {
    return Add({.op = ExprOp::kConstant, .bits = static_cast<std::uint8_t>(bits), .value = value});
  }
  /// An unknown value. Each one is distinct, so that two of them don't cancel. In a full table all unknown values of
  /// one width are the same entry, and the value of every new expression is unknown.
  std::uint16_t Data(unsigned bits = 64) {
    return Add({.op = ExprOp::kData, .bits = static_cast<std::uint8_t>(bits), .value = Full() ? 0 : ++fresh_});
  }
  /// One of the two, by an unknown condition.
  std::uint16_t Choice(std::uint16_t a, std::uint16_t b) {
    return Add({.op = ExprOp::kChoice, .bits = BitsOf(a), .a = a, .b = b, .value = ++fresh_});
  }
  /// An id, a size or a loop's round; `of` is the dimension or the loop.
  std::uint16_t Leaf(ExprOp op, std::uint16_t of, unsigned bits = 64) {
    return Add({.op = op, .bits = static_cast<std::uint8_t>(bits), .a = of});
  }
  std::uint16_t Argument(std::uint16_t argument, unsigned bits, std::uint16_t at = 0) {
    return Add({.op = ExprOp::kArgument, .bits = static_cast<std::uint8_t>(bits), .a = argument, .b = at});
  }
  /// An operation on two operands of equal width.
  std::uint16_t Binary(ExprOp op, std::uint16_t a, std::uint16_t b) {
    const std::int64_t nothing = op == ExprOp::kMul ? 1 : 0;
    if (op == ExprOp::kAdd || op == ExprOp::kMul) {
      if (exprs_[b].op == ExprOp::kConstant && exprs_[b].value == nothing) return a;
      if (exprs_[a].op == ExprOp::kConstant && exprs_[a].value == nothing) return b;
    }
    return Add({.op = op, .bits = BitsOf(a), .a = a, .b = b});
  }
  std::uint16_t Select(std::uint16_t condition, std::uint16_t a, std::uint16_t b) {
    return Add({.op = ExprOp::kSelect, .bits = BitsOf(a), .a = a, .b = b, .c = condition});
  }
  /// Converts to `bits` bits, unless the operand has this width already.
  std::uint16_t Convert(ExprOp widen, std::uint16_t a, unsigned bits) {
    const unsigned from = BitsOf(a);
    if (from == bits) return a;
    return Add({.op = from < bits ? widen : ExprOp::kTrunc, .bits = static_cast<std::uint8_t>(bits), .a = a});
  }
  [[nodiscard]] std::uint8_t BitsOf(std::uint16_t expr) const { return kernel::BitsOf(exprs_[expr]); }
  [[nodiscard]] const std::vector<Expr>& exprs() const { return exprs_; }

 private:
  [[nodiscard]] bool Full() const {
    // Leaves room for one unknown value of each width, 1 to 64 bits.
    return exprs_.size() >= kAccessExprsMax - 65;
  }

  std::int64_t fresh_ = 0;
  std::vector<Expr> exprs_;
  std::vector<std::uint16_t> depths_;
};

}  // namespace weir::kernel
