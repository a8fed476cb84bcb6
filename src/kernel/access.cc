// SPDX-License-Identifier: Apache-2.0
#include "kernel/access.h"

#include <algorithm>
#include <array>

namespace weir::kernel {
namespace {

bool ExprIsSound(const KernelAccess& access, std::size_t at) {
  const Expr& expr = access.exprs[at];
  if (static_cast<std::uint8_t>(expr.op) >= kExprOps || expr.bits < 1 || expr.bits > 64) return false;
  bool backwards = true;
  ForOperands(expr, [&](std::uint16_t operand) { backwards = backwards && operand < at; });
  if (!backwards) return false;
  const auto bits_of = [&](std::uint16_t index) { return BitsOf(access.exprs[index]); };
  switch (expr.op) {
    case ExprOp::kConstant:
    case ExprOp::kData: return true;
    case ExprOp::kArgument:
      return expr.a < access.arguments.size() && access.arguments[expr.a].kind == ArgumentKind::kScalar &&
             expr.bits % 8 == 0 && expr.b + expr.bits / 8U <= access.arguments[expr.a].bytes;
    case ExprOp::kGlobalId:
    case ExprOp::kGroupId:
    case ExprOp::kLocalId:
    case ExprOp::kGlobalSize:
    case ExprOp::kLocalSize:
    case ExprOp::kNumGroups:
    case ExprOp::kGlobalOffset: return expr.a < 3;
    case ExprOp::kWorkDim: return true;
    case ExprOp::kLoop: return expr.a < access.loops;
    case ExprOp::kSExt:
    case ExprOp::kZExt: return bits_of(expr.a) < expr.bits;
    case ExprOp::kTrunc: return bits_of(expr.a) > expr.bits;
    case ExprOp::kSelect: return bits_of(expr.a) == expr.bits && bits_of(expr.b) == expr.bits && bits_of(expr.c) == 1;
    default: return bits_of(expr.a) == expr.bits && bits_of(expr.b) == expr.bits;
  }
}

Error Unsound(const KernelAccess& access, const char* what) {
  return Fail(Errc::kProtocol, "the analysis of kernel '" + access.kernel + "' has " + what + " that means nothing");
}

}  // namespace

const char* NameOf(AccessVerdict verdict) {
  constexpr std::array kNames{"exact", "guarded", "replicate", "refuse"};
  return kNames[static_cast<std::size_t>(verdict)];
}

Status CheckAccess(const KernelAccess& access) {
  if (access.verdict > AccessVerdict::kRefuse || access.kernel.size() > kAccessTextMax ||
      access.reason.size() > kAccessTextMax || access.loops > kAccessLoopsMax || access.asks > 31)
    return Unsound(access, "a head");
  if (access.arguments.size() > kKernelArgumentsMax || access.exprs.size() > kAccessExprsMax ||
      access.tests.size() > kAccessTestsMax || access.contexts.size() > kAccessContextsMax ||
      access.accesses.size() > kAccessesMax || access.contexts.empty())
    return Unsound(access, "a table");
  for (const KernelArgument& argument : access.arguments)
    if (argument.kind > ArgumentKind::kLocal || argument.bytes > 65'536 || argument.name.size() > kAccessTextMax)
      return Unsound(access, "an argument");
  for (std::size_t i = 0; i < access.exprs.size(); ++i)
    if (!ExprIsSound(access, i)) return Unsound(access, "an expression");
  // Evaluation is recursive, so depth is limited.
  std::vector<std::uint16_t> depths(access.exprs.size(), 1);
  for (std::size_t i = 0; i < access.exprs.size(); ++i) {
    ForOperands(access.exprs[i],
                [&](std::uint16_t operand) { depths[i] = std::max<std::uint16_t>(depths[i], depths[operand] + 1); });
    if (depths[i] > kAccessDepthMax) return Unsound(access, "an expression, too deep,");
  }
  const auto is_expr = [&](std::uint16_t index) { return index < access.exprs.size(); };
  for (const LoopTest& test : access.tests) {
    const bool known = test.test == ExprOp::kNe || (test.test >= ExprOp::kSLt && test.test <= ExprOp::kULe);
    if (!known || test.loop >= access.loops || !is_expr(test.start) || !is_expr(test.step) || !is_expr(test.bound) ||
        access.exprs[test.start].bits != access.exprs[test.bound].bits ||
        access.exprs[test.start].bits != access.exprs[test.step].bits)
      return Unsound(access, "a loop");
  }
  for (std::size_t i = 1; i < access.contexts.size(); ++i)
    if (access.contexts[i].parent >= i || !is_expr(access.contexts[i].condition) ||
        (!IsComparison(access.exprs[access.contexts[i].condition].op) &&
         access.exprs[access.contexts[i].condition].bits != 1))
      return Unsound(access, "a condition");
  for (const MemoryAccess& one : access.accesses)
    if (one.argument >= access.arguments.size() || access.arguments[one.argument].kind != ArgumentKind::kBuffer ||
        one.context >= access.contexts.size() || !is_expr(one.offset) || !is_expr(one.bytes) ||
        access.exprs[one.offset].bits != 64 || access.exprs[one.bytes].bits != 64)
      return Unsound(access, "an access");
  return Ok();
}

}  // namespace weir::kernel
