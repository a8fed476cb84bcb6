// SPDX-License-Identifier: Apache-2.0
// Expressions as text.
#include <array>

#include "kernel/access.h"

namespace weir::kernel {
namespace {

constexpr int kTextDepthMax = 12;

struct OperatorText {
  ExprOp op;
  const char* between;  // the operator, or the name of a function
  int strength;         // how tightly the operator binds; 0: a function
};

constexpr std::array kOperators{
    OperatorText{ExprOp::kAdd, " + ", 1},  OperatorText{ExprOp::kMul, "*", 2},
    OperatorText{ExprOp::kUDiv, " / ", 2}, OperatorText{ExprOp::kSDiv, " / ", 2},
    OperatorText{ExprOp::kURem, " % ", 2}, OperatorText{ExprOp::kSRem, " % ", 2},
    OperatorText{ExprOp::kSMin, "min", 0}, OperatorText{ExprOp::kSMax, "max", 0},
    OperatorText{ExprOp::kUMin, "min", 0}, OperatorText{ExprOp::kUMax, "max", 0},
    OperatorText{ExprOp::kAnd, " & ", 1},  OperatorText{ExprOp::kChoice, "either", 0},
    OperatorText{ExprOp::kEq, " == ", 1},  OperatorText{ExprOp::kNe, " != ", 1},
    OperatorText{ExprOp::kSLt, " < ", 1},  OperatorText{ExprOp::kSLe, " <= ", 1},
    OperatorText{ExprOp::kULt, " < ", 1},  OperatorText{ExprOp::kULe, " <= ", 1},
};

class ExprWriter {
 public:
  explicit ExprWriter(const KernelAccess& access) : access_(access) {}

  std::string Text(std::uint16_t index, int strength, int depth) {
    if (depth > kTextDepthMax || length_ > kAccessTextMax) return "...";
    const Expr& expr = access_.exprs[index];
    std::string text = Plain(expr, strength, depth);
    length_ += text.size();
    return text;
  }

 private:
  static std::string Numbered(const char* name, std::uint16_t of) { return name + std::to_string(of); }

  std::string Plain(const Expr& expr, int strength, int depth) {
    switch (expr.op) {
      case ExprOp::kConstant: return std::to_string(expr.value);
      case ExprOp::kArgument: {
        const std::string& name = access_.arguments[expr.a].name;
        const std::string shown = name.empty() ? Numbered("arg", expr.a) : name;
        return expr.b == 0 ? shown : shown + "[" + std::to_string(expr.b) + "]";
      }
      case ExprOp::kGlobalId: return Numbered("gid", expr.a);
      case ExprOp::kGroupId: return Numbered("group", expr.a);
      case ExprOp::kLocalId: return Numbered("lid", expr.a);
      case ExprOp::kGlobalSize: return Numbered("gsize", expr.a);
      case ExprOp::kLocalSize: return Numbered("lsize", expr.a);
      case ExprOp::kNumGroups: return Numbered("groups", expr.a);
      case ExprOp::kGlobalOffset: return Numbered("goffset", expr.a);
      case ExprOp::kWorkDim: return "dims";
      case ExprOp::kLoop: return Numbered("k", expr.a);
      case ExprOp::kSExt:
      case ExprOp::kZExt:
      case ExprOp::kTrunc: return Text(expr.a, strength, depth);
      case ExprOp::kSelect:
        return "(" + Text(expr.c, 0, depth + 1) + " ? " + Text(expr.a, 0, depth + 1) + " : " +
               Text(expr.b, 0, depth + 1) + ")";
      default: break;
    }
    for (const OperatorText& one : kOperators) {
      if (one.op != expr.op) continue;
      if (one.strength == 0)
        return std::string(one.between) + "(" + Text(expr.a, 0, depth + 1) + ", " + Text(expr.b, 0, depth + 1) + ")";
      const std::string text =
          Text(expr.a, one.strength, depth + 1) + one.between + Text(expr.b, one.strength, depth + 1);
      return one.strength < strength ? "(" + text + ")" : text;
    }
    return "?";
  }

  const KernelAccess& access_;
  std::size_t length_ = 0;
};

}  // namespace

std::string ExprText(const KernelAccess& access, std::uint16_t expr) { return ExprWriter(access).Text(expr, 0, 0); }

}  // namespace weir::kernel
