// SPDX-License-Identifier: Apache-2.0
// A kernel's buffer accesses in symbolic form: the bytes of each argument that each work-item reads and writes, as
// expressions over ids, loops, scalar arguments and the launch's geometry. Produced by weir-analyzer, which is not
// trusted; evaluated at launch by footprint.h and cuttable.h. Page: docs/kernel-analysis.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::kernel {

/// Verdict on a kernel before a launch is known; the result for a launch may be worse (cuttable.h), never better.
enum class AccessVerdict : std::uint8_t {
  kExact,      // every index and condition is affine in ids and loops: ranges are known
  kGuarded,    // some ranges are only bounded, or accesses depend on data: old contents are sent, bounds are checked
  kReplicate,  // some reads may go anywhere: that buffer is sent whole; writes as for kGuarded
  kRefuse,     // the kernel is not split
};
const char* NameOf(AccessVerdict verdict);

enum class ExprOp : std::uint8_t {
  kConstant,  // value
  kArgument,  // scalar of `bits` bits at byte b of argument a
  kGlobalId,  // of dimension a; likewise the next seven
  kGroupId,
  kLocalId,
  kGlobalSize,
  kLocalSize,
  kNumGroups,
  kGlobalOffset,
  kWorkDim,
  kLoop,  // number of completed rounds of loop a
  kData,  // unknown: a loaded value, or an operation that is not understood
  kAdd,   // a + b; arithmetic is modulo 2^bits
  kMul,
  kUDiv,
  kSDiv,
  kURem,
  kSRem,
  kSMin,
  kSMax,
  kUMin,
  kUMax,
  kAnd,
  kSExt,  // of a
  kZExt,
  kTrunc,
  kChoice,  // a or b, by an unknown condition
  kSelect,  // a where c holds, else b
  kEq,      // comparisons of a and b; `bits` is the width of these
  kNe,
  kSLt,
  kSLe,
  kULt,
  kULe,
};
inline constexpr std::uint8_t kExprOps = static_cast<std::uint8_t>(ExprOp::kULe) + 1;

/// Operands are indices of earlier expressions. `bits`: 1 to 64; for a comparison, the width of its operands.
struct Expr {
  ExprOp op = ExprOp::kData;
  std::uint8_t bits = 64;
  std::uint16_t a = 0, b = 0, c = 0;
  std::int64_t value = 0;
  bool operator==(const Expr&) const = default;
};

inline bool IsComparison(ExprOp op) { return op >= ExprOp::kEq; }

/// Number of operands among a, b, c.
inline int OperandsOf(ExprOp op) {
  if (op < ExprOp::kAdd) return 0;
  if (op == ExprOp::kSExt || op == ExprOp::kZExt || op == ExprOp::kTrunc) return 1;
  return op == ExprOp::kSelect ? 3 : 2;
}

template <typename Each>
void ForOperands(const Expr& expr, Each each) {
  const int operands = OperandsOf(expr.op);
  if (operands > 0) each(expr.a);
  if (operands > 1) each(expr.b);
  if (operands > 2) each(expr.c);
}

/// Width of the expression's value: one bit for a comparison.
inline std::uint8_t BitsOf(const Expr& expr) { return IsComparison(expr.op) ? std::uint8_t{1} : expr.bits; }

/// Loop `loop` continues while X = start + step * round passes the test against `bound`: `X test bound`, or, if
/// descending, `bound test X`. A loop may have several tests; each bounds its rounds.
struct LoopTest {
  std::uint16_t loop = 0;
  ExprOp test = ExprOp::kSLt;  // kNe, kSLt, kSLe, kULt, kULe
  bool descending = false;
  std::uint16_t start = 0, step = 0, bound = 0;  // expressions of the same bits, invariant in the loop
  bool operator==(const LoopTest&) const = default;
};

/// A condition under which accesses are reached: only in context `parent`, and only if `condition` evaluates to
/// `holds`. Context 0 has no condition.
struct AccessContext {
  std::uint16_t parent = 0;
  std::uint16_t condition = 0;
  bool holds = true;
  bool operator==(const AccessContext&) const = default;
};

/// One access of a work-item. `offset` and `bytes` are expressions of 64 bits: the distance in bytes from the
/// argument's pointer, and the length.
struct MemoryAccess {
  std::uint16_t argument = 0;
  bool write = false;
  bool may = false;  // whether it happens depends on data, too
  std::uint16_t context = 0;
  std::uint16_t offset = 0, bytes = 0;
  std::uint32_t line = 0;  // source line; 0: unknown
  bool operator==(const MemoryAccess&) const = default;
};

enum class ArgumentKind : std::uint8_t { kBuffer, kScalar, kLocal };

struct KernelArgument {
  ArgumentKind kind = ArgumentKind::kScalar;
  std::uint32_t bytes = 0;  // of a scalar
  std::string name{};
  bool operator==(const KernelArgument&) const = default;
};

/// Built-ins that would return another value in a part of a launch; the part's kernel has to return the whole launch's
/// value.
enum WorkItemQuery : std::uint8_t {
  kAsksGroupId = 1,
  kAsksGlobalSize = 2,
  kAsksNumGroups = 4,
  kAsksGlobalOffset = 8,
  kAsksLinearId = 16,
};

struct KernelAccess {
  std::string kernel{};
  AccessVerdict verdict = AccessVerdict::kRefuse;
  std::string reason{};    // text; empty for kExact
  std::uint32_t line = 0;  // source line of the reason; 0: none
  std::uint8_t asks = 0;   // bits of WorkItemQuery
  std::uint16_t loops = 0;
  std::vector<KernelArgument> arguments{};
  std::vector<Expr> exprs{};
  std::vector<LoopTest> tests{};
  std::vector<AccessContext> contexts{AccessContext{}};
  std::vector<MemoryAccess> accesses{};
  bool operator==(const KernelAccess&) const = default;
};

inline constexpr std::size_t kAccessExprsMax = 2048, kAccessDepthMax = 100, kAccessesMax = 128,
                             kAccessContextsMax = 128, kAccessLoopsMax = 32, kAccessTestsMax = 64,
                             kKernelArgumentsMax = 128, kAccessTextMax = 400, kKernelsMax = 256;

/// Checks that every index refers to an earlier entry or to its table, and that sizes are within the bounds above. An
/// access that passes can be evaluated with any launch.
Status CheckAccess(const KernelAccess& access);

/// Encodes all kernels of a program; docs/kernel-analysis.md, "Form".
std::vector<std::byte> EncodeAccesses(std::span<const KernelAccess> kernels);
/// kProtocol for bytes that EncodeAccesses does not produce for checked kernels.
Result<std::vector<KernelAccess>> DecodeAccesses(std::span<const std::byte> bytes);

/// Text for users: "4*gid0 + 4*n*gid1". Scalars have the names of the kernel's arguments.
std::string ExprText(const KernelAccess& access, std::uint16_t expr);

}  // namespace weir::kernel
