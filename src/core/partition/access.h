// SPDX-License-Identifier: Apache-2.0
// What a kernel does to its buffers, in symbols: which bytes of which argument each work-item reads and writes, as
// expressions over ids, loops, scalar arguments and the launch's geometry. Made by weir-analyzer, which is not trusted;
// evaluated at launch by footprint.h and cuttable.h. Page: docs/kernel-analysis.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::core {

/// Of a kernel before a launch is known; a launch may be less lucky (cuttable.h), never more.
enum class AccessVerdict : std::uint8_t {
  kExact,      // every index is affine in ids and loops, every condition is too: ranges are known
  kGuarded,    // some ranges are only bounded, or some accesses depend on data: old contents travel, bounds are checked
  kReplicate,  // some reads go anywhere: that buffer travels whole; writes are as above
  kRefuse,     // not to be split
};
const char* NameOf(AccessVerdict verdict);

enum class ExprOp : std::uint8_t {
  kConstant,  // value
  kArgument,  // the scalar at byte b of argument a, of `bits`
  kGlobalId,  // of dimension a; the next seven likewise
  kGroupId,
  kLocalId,
  kGlobalSize,
  kLocalSize,
  kNumGroups,
  kGlobalOffset,
  kWorkDim,
  kLoop,  // how many rounds of loop a have ended
  kData,  // anything: a loaded value, or what we don't understand
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
  kChoice,  // a or b
  kSelect,  // a where c holds, else b
  kEq,      // comparisons are of a and b, whose bits they have
  kNe,
  kSLt,
  kSLe,
  kULt,
  kULe,
};
inline constexpr std::uint8_t kExprOps = static_cast<std::uint8_t>(ExprOp::kULe) + 1;

/// Operands are indices of expressions before this one. `bits`: 1 to 64; of a comparison, those of what it compares.
struct Expr {
  ExprOp op = ExprOp::kData;
  std::uint8_t bits = 64;
  std::uint16_t a = 0, b = 0, c = 0;
  std::int64_t value = 0;
  bool operator==(const Expr&) const = default;
};

inline bool IsComparison(ExprOp op) { return op >= ExprOp::kEq; }

/// How many of a, b, c are operands.
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

/// Of its value: a comparison's is one bit.
inline std::uint8_t BitsOf(const Expr& expr) { return IsComparison(expr.op) ? std::uint8_t{1} : expr.bits; }

/// Loop `loop` goes on while X = start + step * round passes the test against `bound`: `X test bound`, or, descending,
/// `bound test X`. Several tests of a loop bound it each.
struct LoopTest {
  std::uint16_t loop = 0;
  ExprOp test = ExprOp::kSLt;  // kNe, kSLt, kSLe, kULt, kULe
  bool descending = false;
  std::uint16_t start = 0, step = 0, bound = 0;  // expressions of the same bits, invariant in the loop
  bool operator==(const LoopTest&) const = default;
};

/// Where an access stands: reached only when `condition` is as `holds` says, inside of context `parent`. Context 0 has
/// no condition.
struct AccessContext {
  std::uint16_t parent = 0;
  std::uint16_t condition = 0;
  bool holds = true;
  bool operator==(const AccessContext&) const = default;
};

/// `bytes` bytes from `offset` bytes behind the argument's pointer.
struct MemoryAccess {
  std::uint16_t argument = 0;
  bool write = false;
  bool may = false;  // it depends on data, too, whether it happens
  std::uint16_t context = 0;
  std::uint16_t offset = 0, bytes = 0;
  std::uint32_t line = 0;  // of the source; 0: unknown
  bool operator==(const MemoryAccess&) const = default;
};

enum class ArgumentKind : std::uint8_t { kBuffer, kScalar, kLocal };

struct KernelArgument {
  ArgumentKind kind = ArgumentKind::kScalar;
  std::uint32_t bytes = 0;  // of a scalar
  std::string name{};
  bool operator==(const KernelArgument&) const = default;
};

/// Built-ins whose answers a part of a launch would change: the part's kernel has to be given the whole launch's.
enum AskedBuiltin : std::uint8_t {
  kAsksGroupId = 1,
  kAsksGlobalSize = 2,
  kAsksNumGroups = 4,
  kAsksGlobalOffset = 8,
  kAsksLinearId = 16,
};

struct KernelAccess {
  std::string kernel{};
  AccessVerdict verdict = AccessVerdict::kRefuse;
  std::string reason{};    // in words; empty for kExact
  std::uint32_t line = 0;  // of the source, that the reason is about; 0: none
  std::uint8_t asks = 0;   // of AskedBuiltin
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

/// Every index points at something before it or into its table; sizes are within the bounds above. What passes can be
/// evaluated with any launch.
Status CheckAccess(const KernelAccess& access);

/// Bytes of all kernels of a program; docs/kernel-analysis.md, "Form".
std::vector<std::byte> EncodeAccesses(std::span<const KernelAccess> kernels);
/// Errors: kProtocol for anything that EncodeAccesses would not have written of checked kernels.
Result<std::vector<KernelAccess>> DecodeAccesses(std::span<const std::byte> bytes);

/// For people: "4*gid0 + 4*n*gid1". `arguments` of the kernel name scalars.
std::string ExprText(const KernelAccess& access, std::uint16_t expr);

}  // namespace weir::core
