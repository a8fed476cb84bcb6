// SPDX-License-Identifier: Apache-2.0
// How much is known about an expression before a launch.
#pragma once

#include <algorithm>
#include <vector>

#include "kernel/access.h"

namespace weir::opencl {

enum class AccessClass : std::uint8_t {
  kUniform,  // a known number once the launch is known
  kAffine,   // affine in ids and loop counters
  kBounded,  // only its bounds are known: a product of ids, a quotient, one of two values
  kData,     // unknown
};

/// The loops whose counters an expression uses.
inline std::vector<std::uint16_t> LoopsIn(const std::vector<kernel::Expr>& exprs, std::uint16_t root) {
  std::vector<std::uint16_t> loops, left{root};
  std::vector<bool> seen(exprs.size(), false);
  while (!left.empty()) {
    const std::uint16_t at = left.back();
    left.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const kernel::Expr& expr = exprs[at];
    if (expr.op == kernel::ExprOp::kLoop) loops.push_back(expr.a);
    kernel::ForOperands(expr, [&](std::uint16_t operand) { left.push_back(operand); });
  }
  return loops;
}

class AccessClasses {
 public:
  explicit AccessClasses(const kernel::KernelAccess& access) : access_(access) {
    std::vector<bool> bounded(access.loops, false);
    for (const kernel::LoopTest& test : access.tests) bounded[test.loop] = true;
    for (const kernel::Expr& expr : access.exprs) {
      classes_.push_back(Classify(expr, bounded));
      ids_.push_back(MentionsIds(expr));
    }
  }

  [[nodiscard]] AccessClass Of(std::uint16_t expr) const { return classes_[expr]; }
  /// The weakest class of all conditions of a context.
  [[nodiscard]] AccessClass OfContext(std::uint16_t context) const {
    AccessClass worst = AccessClass::kUniform;
    for (; context != 0; context = access_.contexts[context].parent)
      worst = std::max(worst, classes_[access_.contexts[context].condition]);
    return worst;
  }
  [[nodiscard]] bool ContextMentionsIds(std::uint16_t context) const {
    for (; context != 0; context = access_.contexts[context].parent)
      if (ids_[access_.contexts[context].condition]) return true;
    return false;
  }

 private:
  [[nodiscard]] AccessClass Classify(const kernel::Expr& expr, const std::vector<bool>& bounded) const {
    using kernel::ExprOp;
    const auto of = [&](std::uint16_t operand) { return classes_[operand]; };
    switch (expr.op) {
      case ExprOp::kGlobalId:
      case ExprOp::kGroupId:
      case ExprOp::kLocalId: return AccessClass::kAffine;
      case ExprOp::kLoop: return bounded[expr.a] ? AccessClass::kAffine : AccessClass::kData;
      case ExprOp::kData: return AccessClass::kData;
      case ExprOp::kAdd: return std::max(of(expr.a), of(expr.b));
      case ExprOp::kTrunc: return of(expr.a);
      case ExprOp::kSExt:
      case ExprOp::kZExt:
        // A value of few bits is bounded, such as a byte that selects a table entry.
        return of(expr.a) == AccessClass::kData && access_.exprs[expr.a].bits <= 16 ? AccessClass::kBounded
                                                                                    : of(expr.a);
      case ExprOp::kMul:
        if (of(expr.a) == AccessClass::kUniform) return of(expr.b);
        if (of(expr.b) == AccessClass::kUniform) return of(expr.a);
        return std::max({of(expr.a), of(expr.b), AccessClass::kBounded});
      case ExprOp::kURem:
      case ExprOp::kAnd:
        if (of(expr.a) == AccessClass::kData && of(expr.b) == AccessClass::kUniform) return AccessClass::kBounded;
        break;
      case ExprOp::kSMin:
      case ExprOp::kSMax: {
        // An unknown value clamped between two numbers.
        const bool held = expr.op == ExprOp::kSMin ? HeldBy(expr, ExprOp::kSMax) : HeldBy(expr, ExprOp::kSMin);
        if (held) return AccessClass::kBounded;
        break;
      }
      case ExprOp::kSelect: return std::max({of(expr.a), of(expr.b), AccessClass::kBounded});
      case ExprOp::kEq:
      case ExprOp::kNe:
      case ExprOp::kSLt:
      case ExprOp::kSLe:
      case ExprOp::kULt:
      case ExprOp::kULe: return std::max(of(expr.a), of(expr.b));
      default:
        if (expr.op < ExprOp::kAdd) return AccessClass::kUniform;
        break;
    }
    const AccessClass worst = std::max(of(expr.a), of(expr.b));
    return worst == AccessClass::kUniform ? worst : std::max(worst, AccessClass::kBounded);
  }

  [[nodiscard]] bool HeldBy(const kernel::Expr& expr, kernel::ExprOp other) const {
    for (const auto& [inner, limit] : {std::pair(expr.a, expr.b), std::pair(expr.b, expr.a)}) {
      if (classes_[limit] != AccessClass::kUniform || access_.exprs[inner].op != other) continue;
      const kernel::Expr& held = access_.exprs[inner];
      if (classes_[held.a] == AccessClass::kUniform || classes_[held.b] == AccessClass::kUniform) return true;
    }
    return false;
  }

  [[nodiscard]] bool MentionsIds(const kernel::Expr& expr) const {
    using kernel::ExprOp;
    bool ids = expr.op == ExprOp::kGlobalId || expr.op == ExprOp::kGroupId || expr.op == ExprOp::kLocalId;
    kernel::ForOperands(expr, [&](std::uint16_t operand) { ids = ids || ids_[operand]; });
    return ids;
  }

  const kernel::KernelAccess& access_;
  std::vector<AccessClass> classes_;
  std::vector<bool> ids_;
};

}  // namespace weir::opencl
